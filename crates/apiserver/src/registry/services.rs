//! Addresses of Services.
//!
//! The first free address of the range is taken under a lock, so that two Services never get the same one.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Value, json};
use tokio::sync::MutexGuard;

use super::{ListOptions, Registry};
use crate::error::{ApiError, cause};
use crate::resource::ResourceType;
use crate::value;

/// The range that addresses are taken from, `10.96.0.0/16`: Kubernetes' customary one. The first is the API server's.
const RANGE: std::ops::RangeInclusive<u32> = 0x0a60_0001..=0x0a60_fffe;
/// The address of the Service `default/kubernetes`.
pub const KUBERNETES_SERVICE_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);

impl Registry {
    /// Gives a new Service its address; the lock is held until it is stored.
    pub(super) async fn allocate_address(
        &self,
        resource: &ResourceType,
        service: &mut Value,
    ) -> Result<Option<MutexGuard<'_, ()>>, ApiError> {
        let headless = value::text(service, "/spec/clusterIP") == Some("None");
        if resource.kind != "Service" || headless || value::text(service, "/spec/type") == Some("ExternalName") {
            return Ok(None);
        }
        let lock = self.addresses.lock().await;
        let taken = self.taken_addresses(resource)?;
        let address = match value::text(service, "/spec/clusterIP").map(str::to_owned) {
            Some(wanted) if taken.contains(&wanted) => {
                let name = value::text(service, "/metadata/name").unwrap_or_default();
                let text = format!(
                    "Invalid value: \"{wanted}\": failed to allocate IP {wanted}: provided IP is already allocated"
                );
                return Err(ApiError::invalid(
                    resource,
                    name,
                    vec![cause("FieldValueInvalid", "spec.clusterIPs", text)],
                ));
            }
            Some(wanted) => wanted,
            None => self.free_address(service, &taken)?,
        };
        value::set(service, &["spec", "clusterIP"], json!(address));
        value::set(service, &["spec", "clusterIPs"], json!([address]));
        for (field, text) in [("ipFamilies", json!(["IPv4"])), ("ipFamilyPolicy", json!("SingleStack"))] {
            if !value::is_set(service, &format!("/spec/{field}")) {
                value::set(service, &["spec", field], text);
            }
        }
        Ok(Some(lock))
    }

    fn taken_addresses(&self, resource: &ResourceType) -> Result<BTreeSet<String>, ApiError> {
        let services = self.list(resource, None, &ListOptions::default())?.objects;
        Ok(services.iter().filter_map(|service| value::text(service, "/spec/clusterIP")).map(str::to_owned).collect())
    }

    fn free_address(&self, service: &Value, taken: &BTreeSet<String>) -> Result<String, ApiError> {
        let identity = (value::text(service, "/metadata/namespace"), value::text(service, "/metadata/name"));
        let kubernetes = identity == (Some("default"), Some("kubernetes"));
        let addresses = RANGE.map(Ipv4Addr::from_bits);
        let mut free = addresses.filter(|address| kubernetes || *address != KUBERNETES_SERVICE_ADDRESS);
        let found = free.find(|address| !taken.contains(&address.to_string()));
        found.map(|address| address.to_string()).ok_or_else(|| ApiError::internal("no address is free in 10.96.0.0/16"))
    }
}
