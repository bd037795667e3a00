//! Compressed streams, told apart by their first bytes: media types and file names lie too often.

use std::io::{self, BufRead, Read};

/// What a stream is compressed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    Gzip,
    Zstd,
    /// Known by name, so that the error can name it.
    Unsupported(&'static str),
}

const MAGICS: &[(&[u8], Compression)] = &[
    (&[0x1f, 0x8b], Compression::Gzip),
    (&[0x28, 0xb5, 0x2f, 0xfd], Compression::Zstd),
    (&[0xfd, b'7', b'z', b'X', b'Z', 0], Compression::Unsupported("xz")),
    (b"BZh", Compression::Unsupported("bzip2")),
    (&[0x04, 0x22, 0x4d, 0x18], Compression::Unsupported("lz4")),
    (b"PK\x03\x04", Compression::Unsupported("zip")),
];

/// The longest of the magics.
pub(crate) const MAGIC_BYTES: usize = 6;

/// What the first bytes of a stream say.
pub(crate) fn detect(first: &[u8]) -> Option<Compression> {
    MAGICS.iter().find(|(magic, _)| first.starts_with(magic)).map(|(_, compression)| *compression)
}

/// The plain content of a stream, whatever it is compressed with.
pub(crate) fn decompress<'a>(mut stream: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
    let compression = detect(stream.fill_buf()?);
    Ok(match compression {
        None => Box::new(stream),
        Some(Compression::Gzip) => Box::new(flate2::bufread::MultiGzDecoder::new(stream)),
        Some(Compression::Zstd) => Box::new(zstd::stream::read::Decoder::with_buffer(stream)?),
        Some(Compression::Unsupported(name)) => {
            let text = format!("it is compressed with {name}; gzip and zstd can be read");
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn read(stream: &[u8]) -> Result<Vec<u8>, String> {
        let mut plain = Vec::new();
        let read = decompress(stream).and_then(|mut reader| reader.read_to_end(&mut plain));
        read.map(|_| plain).map_err(|error| error.to_string())
    }

    #[test]
    fn every_form_gives_the_same_content() {
        let gzip = |text: &[u8]| {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        };
        assert_eq!(read(b"plain"), Ok(b"plain".to_vec()));
        assert_eq!(read(b""), Ok(Vec::new()));
        // Parallel compressors write several members and frames, one after another.
        assert_eq!(read(&[gzip(b"one "), gzip(b"two")].concat()), Ok(b"one two".to_vec()));
        let frame = |text: &[u8]| zstd::stream::encode_all(text, 1).unwrap();
        assert_eq!(read(&[frame(b"one "), frame(b"two")].concat()), Ok(b"one two".to_vec()));
    }

    #[test]
    fn other_and_broken_compressions_are_errors() {
        let xz = read(b"\xfd7zXZ\0rest");
        assert_eq!(xz, Err("it is compressed with xz; gzip and zstd can be read".to_owned()));
        assert!(read(&[0x1f, 0x8b, 8, 0]).is_err());
        assert!(read(&[0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3]).is_err());
    }
}
