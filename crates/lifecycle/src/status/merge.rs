//! How a written status meets the one that is stored.

use k8s_openapi::api::core::v1::PodStatus;

use crate::status::conditions::{DISRUPTION_TARGET, OWNED};

/// Puts the conditions and fields of `stored` that are not the node's into `written`, so that a write takes nothing from others who wrote meanwhile (L-720, L-728).
///
/// Drivers call it with the object's status at the moment of the write.
pub fn merge_status(stored: &PodStatus, mut written: PodStatus) -> PodStatus {
    let is_ours = |type_: &str| OWNED.contains(&type_);
    let mut conditions: Vec<_> =
        stored.conditions.iter().flatten().filter(|condition| !is_ours(&condition.type_)).cloned().collect();
    for condition in written.conditions.take().unwrap_or_default() {
        if condition.type_ == DISRUPTION_TARGET {
            conditions.retain(|other| other.type_ != DISRUPTION_TARGET);
            conditions.push(condition);
        } else if is_ours(&condition.type_) {
            conditions.push(condition);
        }
    }
    written.conditions = (!conditions.is_empty()).then_some(conditions);
    written.nominated_node_name = stored.nominated_node_name.clone();
    written.resource_claim_statuses = stored.resource_claim_statuses.clone();
    written.extended_resource_claim_status = stored.extended_resource_claim_status.clone();
    written
}
