//! How far a load or a pull has come, for whoever wants to show it.

use std::io::{self, Read};

/// Hears how far a load or a pull has come.
pub trait Progress: Send + Sync {
    /// Work on an item (a layer, a file) begins; `total_bytes` is known in most cases.
    fn begin(&self, item: &str, total_bytes: Option<u64>);
    /// So many more bytes of the item are done.
    fn advance(&self, item: &str, bytes: u64);
    /// The item is done, or given up.
    fn end(&self, item: &str);
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: &str, _: Option<u64>) {}
    fn advance(&self, _: &str, _: u64) {}
    fn end(&self, _: &str) {}
}

/// Tells how much is read through it.
pub(crate) struct Counted<'a, R> {
    inner: R,
    progress: &'a dyn Progress,
    item: String,
}

impl<'a, R: Read> Counted<'a, R> {
    pub(crate) fn new(inner: R, progress: &'a dyn Progress, item: String, total_bytes: Option<u64>) -> Self {
        progress.begin(&item, total_bytes);
        Counted { inner, progress, item }
    }
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.progress.advance(&self.item, read as u64);
        Ok(read)
    }
}

impl<R> Drop for Counted<'_, R> {
    fn drop(&mut self) {
        self.progress.end(&self.item);
    }
}

/// How a layer is shown: enough of its digest to be told from the others.
pub(crate) fn short(digest: &super::digest::Digest) -> String {
    digest.hex().get(..12).unwrap_or_default().to_owned()
}
