//! `tcpSocket`: a connection is all that counts (L-413).

use std::time::Duration;

use lifecycle::input::ProbeOutcome;

use super::network::Network;

pub(super) async fn attempt(network: &Network, host: &str, port: u16, timeout: Duration) -> ProbeOutcome {
    match network.connect_within(timeout, host, port).await {
        Ok(_) => ProbeOutcome::Success,
        Err(error) => ProbeOutcome::Failure(error.to_string()),
    }
}
