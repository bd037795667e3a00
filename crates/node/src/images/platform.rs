//! Which images this machine can run, and which one of several runs best.

use std::fmt;

use super::image::Platform;

/// The platform of this machine.
pub(crate) fn host() -> Platform {
    let (architecture, variant) = match std::env::consts::ARCH {
        "x86_64" => ("amd64", ""),
        "x86" => ("386", ""),
        "aarch64" => ("arm64", "v8"),
        "arm" => ("arm", "v7"),
        "powerpc64" => ("ppc64le", ""),
        other => (other, ""),
    };
    Platform { os: "linux".to_owned(), architecture: architecture.to_owned(), variant: variant.to_owned() }
}

/// How well an image fits a machine: the greater the better, `None` if it can't run.
///
/// A 64-bit machine runs the 32-bit programs of its family too, and an ARM one those of older variants.
pub(crate) fn fitness(image: &Platform, host: &Platform) -> Option<u32> {
    if image.os != host.os {
        return None;
    }
    match (host.architecture.as_str(), image.architecture.as_str()) {
        ("amd64", "386") => Some(1),
        // Variants of amd64 are levels of the instruction set; level 1 is what every machine has.
        ("amd64", "amd64") => matches!(image.variant.as_str(), "" | "v1").then_some(100),
        ("arm64", "arm") => Some(level(&image.variant, 7)),
        (here, there) if here == there => {
            let (own, other) = (level(&host.variant, 8), level(&image.variant, 8));
            (other <= own).then_some(100 + other)
        }
        _ => None,
    }
}

/// The number of a variant such as `v8`.
fn level(variant: &str, default: u32) -> u32 {
    variant.strip_prefix('v').and_then(|number| number.parse().ok()).filter(|number| *number < 100).unwrap_or(default)
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = |text: &'_ str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
        write!(f, "{}/{}", unknown(&self.os), unknown(&self.architecture))?;
        if self.variant.is_empty() { Ok(()) } else { write!(f, "/{}", self.variant) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(text: &str) -> Platform {
        let mut parts = text.split('/').map(str::to_owned);
        let mut next = || parts.next().unwrap_or_default();
        Platform { os: next(), architecture: next(), variant: next() }
    }

    fn best<'a>(host: &str, images: &[&'a str]) -> Option<&'a str> {
        let fit = |image: &&&str| fitness(&platform(image), &platform(host));
        images.iter().filter(|image| fit(image).is_some()).max_by_key(fit).copied()
    }

    #[test]
    fn the_nearest_platform_wins_and_a_foreign_one_never() {
        let all = ["linux/386", "linux/amd64", "windows/amd64", "linux/arm/v6", "linux/arm/v7", "linux/arm64/v8", "/"];
        assert_eq!(best("linux/amd64", &all), Some("linux/amd64"));
        assert_eq!(best("linux/arm64/v8", &all), Some("linux/arm64/v8"));
        assert_eq!(best("linux/arm/v7", &all), Some("linux/arm/v7"));
        assert_eq!(best("linux/arm/v6", &all), Some("linux/arm/v6"));
        assert_eq!(best("linux/amd64", &["linux/386"]), Some("linux/386"));
        assert_eq!(best("linux/arm64/v8", &["linux/arm64"]), Some("linux/arm64"));
        assert_eq!(best("linux/amd64", &["linux/arm64", "windows/amd64", "linux/amd64/v3", ""]), None);
        assert_eq!(best("linux/s390x", &all), None);
    }
}
