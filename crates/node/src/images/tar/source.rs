//! Where an archive's bytes come from, and how bytes that nobody wants are passed over.

use std::io::{self, Read, Seek, SeekFrom};

/// Where an archive's bytes come from.
pub(crate) trait Source: Read {
    /// Passes over so many bytes. Going beyond the end is an error, at the latest in the next read.
    fn skip(&mut self, bytes: u64) -> io::Result<()>;
}

/// A source that can only be read from its beginning to its end.
pub(crate) struct Stream<R>(pub(crate) R);

/// A source that can be passed over without being read.
pub(crate) struct Seekable<R>(pub(crate) R);

impl<R: Read> Source for Stream<R> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let passed = io::copy(&mut self.0.by_ref().take(bytes), &mut io::sink())?;
        if passed < bytes { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }
}

impl<R: Read> Read for Stream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: Read + Seek> Source for Seekable<R> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        // The last byte is read, so that going beyond the end is seen here.
        let distance = i64::try_from(bytes - 1).map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        self.0.seek(SeekFrom::Current(distance))?;
        self.0.read_exact(&mut [0])
    }
}

impl<R: Read> Read for Seekable<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}
