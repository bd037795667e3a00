//! A stream that remembers the first bytes that came in: what a peer is shows there when it does not speak what is expected.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const FIRST_BYTES_MAX: usize = 128;

/// The first bytes that came in, as far as they have.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstBytes(Arc<Mutex<Vec<u8>>>);

impl FirstBytes {
    /// What has come so far.
    pub(crate) fn get(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, bytes: &[u8]) {
        let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = FIRST_BYTES_MAX.saturating_sub(first.len());
        first.extend(bytes.iter().take(room));
    }
}

/// A stream that passes everything on and notes the beginning.
#[derive(Debug)]
pub(crate) struct Recorded<S> {
    stream: S,
    first: FirstBytes,
}

impl<S> Recorded<S> {
    /// Wraps a stream that nothing was read from.
    pub(crate) fn new(stream: S) -> (Self, FirstBytes) {
        let first = FirstBytes::default();
        (Recorded { stream, first: first.clone() }, first)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Recorded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.first.add(buffer.filled().get(before..).unwrap_or_default());
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Recorded<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn the_first_bytes_are_kept_and_all_are_passed_on() -> io::Result<()> {
        let (mut far, near) = tokio::io::duplex(1024);
        let (mut near, first) = Recorded::new(near);
        far.write_all(&[7; 200]).await?;
        drop(far);
        let mut all = Vec::new();
        near.read_to_end(&mut all).await?;
        assert_eq!((all.len(), first.get()), (200, vec![7; 128]));
        Ok(())
    }
}
