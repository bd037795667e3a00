//! The agent's ends of a process's pipes or terminal.
//!
//! They come straight from the shim as descriptors: what a process reads and writes does not pass through the shim again.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustix::fs::OFlags;
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a process reads. Dropped or shut down, a pipe ends; a terminal does not.
#[derive(Debug)]
pub struct ProcessInput(Option<Arc<AsyncFd<OwnedFd>>>);

/// What a process writes.
#[derive(Debug)]
pub struct ProcessOutput(Arc<AsyncFd<OwnedFd>>);

/// A process's terminal.
#[derive(Clone, Debug)]
pub struct Terminal(Arc<AsyncFd<OwnedFd>>);

impl Terminal {
    /// Tells the process how large its terminal is.
    pub fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(self.0.get_ref(), size)?)
    }
}

/// All streams of one terminal.
pub(super) fn terminal_streams(descriptor: OwnedFd) -> io::Result<(ProcessInput, ProcessOutput, Terminal)> {
    let shared = shared(descriptor)?;
    Ok((ProcessInput(Some(Arc::clone(&shared))), ProcessOutput(Arc::clone(&shared)), Terminal(shared)))
}

/// The write end of a pipe.
pub(super) fn input(descriptor: OwnedFd) -> io::Result<ProcessInput> {
    Ok(ProcessInput(Some(shared(descriptor)?)))
}

/// The read end of a pipe.
pub(super) fn output(descriptor: OwnedFd) -> io::Result<ProcessOutput> {
    Ok(ProcessOutput(shared(descriptor)?))
}

fn shared(descriptor: OwnedFd) -> io::Result<Arc<AsyncFd<OwnedFd>>> {
    let flags = rustix::fs::fcntl_getfl(&descriptor)?;
    rustix::fs::fcntl_setfl(&descriptor, flags | OFlags::NONBLOCK)?;
    Ok(Arc::new(crate::sys::readiness::register(descriptor)?))
}

impl AsyncRead for ProcessOutput {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(context))?;
            let unfilled = buffer.initialize_unfilled();
            match guard.try_io(|descriptor| Ok(rustix::io::read(descriptor.get_ref(), unfilled)?)) {
                Ok(Ok(length)) => {
                    buffer.advance(length);
                    return Poll::Ready(Ok(()));
                }
                // A terminal whose last process is gone gives this error in place of an end.
                Ok(Err(error)) if error.raw_os_error() == Some(libc::EIO) => return Poll::Ready(Ok(())),
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for ProcessInput {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Some(descriptor) = &self.0 else { return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())) };
        loop {
            let mut guard = ready!(descriptor.poll_write_ready(context))?;
            match guard.try_io(|descriptor| Ok(rustix::io::write(descriptor.get_ref(), bytes)?)) {
                Ok(result) => return Poll::Ready(result),
                Err(_would_block) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0 = None;
        Poll::Ready(Ok(()))
    }
}
