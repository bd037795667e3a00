//! The server as its clients see it: over HTTP and TLS, with the real kubectl, and under load.

mod http;
mod kubectl;
mod load;
mod support;
