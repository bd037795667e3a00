//! A container of a pod by its name, whatever list it stands in.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{Container, Pod};

/// The container of that name: regular, init or ephemeral. Names are unique over all three.
pub fn find_container<'a>(pod: &'a Pod, name: &str) -> Option<Cow<'a, Container>> {
    let spec = pod.spec.as_ref()?;
    let listed = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    if let Some(container) = listed.into_iter().find(|container| container.name == name) {
        return Some(Cow::Borrowed(container));
    }
    let ephemeral = spec.ephemeral_containers.iter().flatten().find(|container| container.name == name)?;
    // An ephemeral container has a container's fields under the same names, and `targetContainerName`.
    let value = serde_json::to_value(ephemeral).ok()?;
    serde_json::from_value(value).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_is_found_in_each_list() -> Result<(), serde_json::Error> {
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "containers": [{"name": "a", "image": "1"}],
            "initContainers": [{"name": "b", "image": "2"}],
            "ephemeralContainers": [{"name": "c", "image": "3", "targetContainerName": "a", "tty": true}],
        }}))?;
        let image = |name| find_container(&pod, name).and_then(|container| container.image.clone());
        let image = |name| image(name).unwrap_or_default();
        assert_eq!([image("a"), image("b"), image("c"), image("d")], ["1", "2", "3", ""]);
        assert_eq!(find_container(&pod, "c").and_then(|container| container.tty), Some(true));
        Ok(())
    }
}
