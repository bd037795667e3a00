//! Who is asking, and what may they do.
//!
//! - [`authority`]: the server's own certificate authority, its TLS, client certificates, the kubeconfig
//! - [`token`]: service account tokens, signed and checked
//! - [`authenticate`]: from a certificate or a token to a [`User`]
//! - [`rbac`]: from roles and bindings to yes or no; `default_roles`: those that every cluster has

pub mod authenticate;
pub mod authority;
mod default_roles;
pub mod rbac;
pub mod token;

pub use authenticate::User;
pub use authority::{Authority, AuthorityError, ServerNames};
pub use rbac::{Attributes, Decision};

/// The group whose members may do everything.
pub const MASTERS: &str = "system:masters";
/// The group of everybody who is somebody.
pub const AUTHENTICATED: &str = "system:authenticated";
