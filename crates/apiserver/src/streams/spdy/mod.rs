//! SPDY/3.1, as far as Kubernetes' clients use it.
//!
//! - `dictionary`, `frame`: sans-IO: bytes to frames and back, headers with their compression
//! - `connection`: two tasks that drive the codec over any byte stream
//!
//! Go's library knows no flow control: windows are neither waited for nor counted.

mod connection;
mod dictionary;
mod frame;

pub use connection::{Accepted, Incoming, Sender, accept};
pub use frame::{Decoder, Encoder, Frame, Headers, SpdyError};
