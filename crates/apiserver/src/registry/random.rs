//! Random names: uids, and the suffixes of generated names.

use crate::error::ApiError;

/// The letters of generated names: no vowels and nothing that is easily misread, so that no words come out.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// A generated name is its base, cut to this length, and five letters: 63 in all.
const GENERATED_BASE_MAX: usize = 58;

/// A random (version 4) UUID.
pub(super) fn uid() -> Result<String, ApiError> {
    let mut bytes = random::<16>()?;
    let [.., version, _, variant, _, _, _, _, _, _, _] = &mut bytes;
    *version = (*version & 0x0f) | 0x40;
    *variant = (*variant & 0x3f) | 0x80;
    let mut text = String::with_capacity(36);
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    Ok(text)
}

/// `generateName` and five letters.
pub(super) fn generated_name(base: &str) -> Result<String, ApiError> {
    let base: String = base.chars().take(GENERATED_BASE_MAX).collect();
    Ok(format!("{base}{}", suffix()?))
}

/// Five random letters.
pub(super) fn suffix() -> Result<String, ApiError> {
    let letters = random::<5>()?.into_iter().map(|byte| {
        let index = usize::from(byte) % ALPHABET.len();
        ALPHABET.get(index).copied().map_or('b', char::from)
    });
    Ok(letters.collect())
}

fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], ApiError> {
    let mut bytes = [0; LENGTH];
    getrandom::fill(&mut bytes).map_err(|error| ApiError::internal(format!("no random bytes: {error}")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_a_version_4_uuid() -> Result<(), ApiError> {
        let uid = uid()?;
        let parts: Vec<usize> = uid.split('-').map(str::len).collect();
        assert_eq!((parts, uid.chars().nth(14)), (vec![8, 4, 4, 4, 12], Some('4')));
        assert!(matches!(uid.chars().nth(19), Some('8' | '9' | 'a' | 'b')));
        Ok(())
    }

    #[test]
    fn a_94_a_long_base_is_cut_so_that_the_name_fits() -> Result<(), ApiError> {
        let name = generated_name(&"a".repeat(80))?;
        assert_eq!((name.len(), name.starts_with(&"a".repeat(58))), (63, true));
        Ok(())
    }
}
