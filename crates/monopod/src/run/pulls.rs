//! Says why an image that is loaded was not used, once for each.

use std::collections::BTreeSet;

use api::manifest::Severity;
use node::images::ImageStore;

/// Images that failed to be pulled although they are loaded.
pub(crate) struct FailedPulls {
    store: ImageStore,
    told: BTreeSet<String>,
}

impl FailedPulls {
    pub(crate) fn new(store: ImageStore) -> Self {
        FailedPulls { store, told: BTreeSet::new() }
    }

    /// The image that an event says could not be pulled, if it is loaded and was not told of.
    pub(crate) fn take(&mut self, severity: Severity, reason: &str, message: &str) -> Option<String> {
        if severity != Severity::Warning || reason != "Failed" {
            return None;
        }
        let image = message.strip_prefix("Failed to pull image \"")?.split('"').next()?.to_owned();
        let loaded = self.store.find(&image).ok().flatten().is_some();
        (loaded && self.told.insert(image.clone())).then_some(image)
    }
}
