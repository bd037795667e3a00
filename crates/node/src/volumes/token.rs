//! Projected tokens: when the one in the volume still does, and when a new one is asked for (L-923).
//!
//! A token says itself when it was issued and when it ends, so nothing has to be remembered over a restart of the agent.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;

use super::set_up::VolumeError;
use super::{TokenRequest, VolumeContext, pod_ref};

/// `expirationSeconds` if it is not said.
pub(super) const DEFAULT_EXPIRATION_SECONDS: i64 = 3600;
/// A token is renewed at this age, however long it lasts.
const AGE_MAX: SignedDuration = SignedDuration::from_hours(24);

/// A token that a volume wants.
pub(super) struct WantedToken<'a> {
    /// Where the last one was written.
    pub(super) file: &'a Path,
    pub(super) audience: &'a str,
    pub(super) expiration_seconds: i64,
}

/// The claims that tell a token's age (RFC 7519).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
struct Life {
    iat: i64,
    exp: i64,
}

/// The token that the volume has, or a new one if that gets old; and when it gets old.
pub(super) fn current(
    wanted: &WantedToken<'_>,
    context: &VolumeContext<'_>,
) -> Result<(String, Timestamp), VolumeError> {
    let stored = fs::read_to_string(wanted.file).ok().and_then(|token| Some((Life::of(&token)?, token)));
    if let Some((life, token)) = &stored
        && context.now < life.due()
    {
        return Ok((token.clone(), life.due()));
    }
    let pod = pod_ref(context.pod);
    let service_account = context.pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
    let request = TokenRequest {
        pod: &pod,
        // Admission writes it into every pod.
        service_account: service_account.filter(|name| !name.is_empty()).unwrap_or("default"),
        audience: wanted.audience,
        expiration_seconds: wanted.expiration_seconds,
    };
    match (context.sources.service_account_token(&request), stored) {
        (Ok(token), _) => {
            let expires_at = token.expires_at;
            let issued_at = expires_at.as_second().saturating_sub(wanted.expiration_seconds);
            let life = Life::of(&token.token).unwrap_or(Life { iat: issued_at, exp: expires_at.as_second() });
            Ok((token.token, life.due()))
        }
        // An old token is better than none; it is tried again when the volume is refreshed the next time.
        (Err(error), Some((life, token))) if context.now.as_second() < life.exp => {
            tracing::warn!(%error, pod = %pod.name, namespace = %pod.namespace, "a service account token is not renewed");
            Ok((token, context.now))
        }
        (Err(error), _) => Err(VolumeError::Token(error)),
    }
}

impl Life {
    fn of(token: &str) -> Option<Life> {
        let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
        serde_json::from_slice(&payload).ok()
    }

    /// At four fifths of its life, or after a day.
    fn due(self) -> Timestamp {
        let lifetime = self.exp.saturating_sub(self.iat);
        let old = self.exp.saturating_sub(lifetime / 5);
        let aged = self.iat.saturating_add(AGE_MAX.as_secs());
        Timestamp::from_second(old.min(aged)).unwrap_or(Timestamp::MIN)
    }
}
