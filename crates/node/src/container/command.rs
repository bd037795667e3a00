//! What a container runs: `command` and `args` over the image's ENTRYPOINT and CMD (L-904).

use super::expansion::expand;
use crate::images::ImageConfig;

/// Program and arguments; empty if neither the container nor the image says what to run.
///
/// `command` puts the image's ENTRYPOINT and CMD aside; `args` alone replace CMD only.
pub fn argv(
    command: &[String],
    args: &[String],
    image: &ImageConfig,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Vec<String> {
    let expand_all = |words: &[String]| words.iter().map(|word| expand(word, lookup)).collect::<Vec<_>>();
    match (command, args) {
        ([], []) => [image.entrypoint.as_slice(), &image.command].concat(),
        ([], args) => [image.entrypoint.as_slice(), &expand_all(args)].concat(),
        (command, args) => [expand_all(command), expand_all(args)].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn check(command: &str, args: &str, entrypoint: &str, cmd: &str, expected: &str) {
        let image = ImageConfig { entrypoint: words(entrypoint), command: words(cmd), ..ImageConfig::default() };
        let lookup = |name: &str| (name == "A").then(|| "one".to_owned());
        assert_eq!(argv(&words(command), &words(args), &image, &lookup), words(expected));
    }

    #[test]
    fn the_table_of_command_args_entrypoint_and_cmd() {
        check("", "", "/ep", "cmd", "/ep cmd");
        check("", "", "", "cmd", "cmd");
        check("", "", "/ep", "", "/ep");
        check("", "", "", "", "");
        check("/c", "", "/ep", "cmd", "/c");
        check("", "a b", "/ep", "cmd", "/ep a b");
        check("/c", "a", "/ep", "cmd", "/c a");
        check("", "a", "", "cmd", "a");
    }

    #[test]
    fn the_pods_words_are_expanded_and_the_images_are_not() {
        check("$(A)", "$(A) $(B) $$(A)", "", "", "one one $(B) $(A)");
        check("", "$(A)", "$(A)", "", "$(A) one");
        check("", "", "$(A)", "$(A)", "$(A) $(A)");
    }
}
