//! Names of members, cut into components.

/// More components than this are refused; no image has them, and trees as deep as paths are long are a burden to remove.
const DEPTH_MAX: usize = 256;
const COMPONENT_BYTES_MAX: usize = 255;
const PATH_BYTES_MAX: usize = 4000;

/// The components of a member's name; none means the root.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MemberPath(Vec<Vec<u8>>);

/// Why a name cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    Outside,
    Name(&'static str),
}

impl MemberPath {
    /// Absolute names are taken as relative to the layer; `..` is refused even where it would stay inside.
    pub(super) fn parse(name: &[u8]) -> Result<MemberPath, Unusable> {
        if name.is_empty() {
            return Err(Unusable::Name("is empty"));
        }
        if name.len() > PATH_BYTES_MAX {
            return Err(Unusable::Name("is too long"));
        }
        let mut components = Vec::new();
        for component in name.split(|byte| *byte == b'/') {
            match component {
                b"" | b"." => {}
                b".." => return Err(Unusable::Outside),
                _ if component.len() > COMPONENT_BYTES_MAX => return Err(Unusable::Name("is too long")),
                _ if component.contains(&0) => return Err(Unusable::Name("holds a zero")),
                _ => components.push(component.to_vec()),
            }
        }
        if components.len() > DEPTH_MAX {
            return Err(Unusable::Name("lies too deep"));
        }
        Ok(MemberPath(components))
    }

    pub(super) fn root() -> MemberPath {
        MemberPath::default()
    }

    /// The directory and the last component; `None` for the root.
    pub(super) fn split_last(&self) -> Option<(MemberPath, &[u8])> {
        let (last, parents) = self.0.split_last()?;
        Some((MemberPath(parents.to_vec()), last))
    }

    /// Goes up; the root's parent is the root.
    pub(super) fn pop(&mut self) {
        self.0.pop();
    }

    /// Goes down by one component.
    pub(super) fn push(&mut self, name: &[u8]) -> Result<(), Unusable> {
        if self.0.len() >= DEPTH_MAX {
            return Err(Unusable::Name("lies too deep"));
        }
        self.0.push(name.to_vec());
        Ok(())
    }

    pub(super) fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }

    /// As the kernel wants it: relative, `.` for the root.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        if self.0.is_empty() { b".".to_vec() } else { self.0.join(&b'/') }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_relative_to_the_layer_and_never_lead_out() {
        let bytes = |name: &[u8]| MemberPath::parse(name).map(|path| path.to_bytes());
        assert_eq!(bytes(b"./a//b/"), Ok(b"a/b".to_vec()));
        assert_eq!(bytes(b"/etc/passwd"), Ok(b"etc/passwd".to_vec()));
        assert_eq!(bytes(b"./"), Ok(b".".to_vec()));
        assert_eq!(bytes(b"a/../b"), Err(Unusable::Outside));
        assert_eq!(bytes(b".."), Err(Unusable::Outside));
        assert_eq!(bytes(b"..."), Ok(b"...".to_vec()));
        assert_eq!(bytes(b""), Err(Unusable::Name("is empty")));
        assert_eq!(bytes(b"a\0b"), Err(Unusable::Name("holds a zero")));
        assert_eq!(bytes(&[b'a'; 256]), Err(Unusable::Name("is too long")));
        assert_eq!(bytes(&[b'a'; 5000]), Err(Unusable::Name("is too long")));
        assert_eq!(bytes(&b"a/".repeat(257)), Err(Unusable::Name("lies too deep")));
    }
}
