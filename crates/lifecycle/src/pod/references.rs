//! Which ConfigMaps and Secrets a pod's spec names.

use k8s_openapi::api::core::v1::{EnvFromSource, EnvVar, PodSpec, ProjectedVolumeSource, Volume};

use crate::input::ReferenceKind;

/// True if the pod's volumes, environment or pull secrets name the object.
pub(crate) fn refers_to(spec: &PodSpec, kind: ReferenceKind, name: &str) -> bool {
    let pulls_with =
        kind == ReferenceKind::Secret && spec.image_pull_secrets.iter().flatten().any(|secret| secret.name == name);
    let in_volumes = spec.volumes.iter().flatten().any(|volume| volume_refers_to(volume, kind, name));
    pulls_with || in_volumes || environment_refers_to(spec, kind, name)
}

fn environment_refers_to(spec: &PodSpec, kind: ReferenceKind, name: &str) -> bool {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let of_containers = containers.map(|container| (&container.env, &container.env_from));
    let ephemeral = spec.ephemeral_containers.iter().flatten();
    let of_ephemeral = ephemeral.map(|container| (&container.env, &container.env_from));
    of_containers.chain(of_ephemeral).any(|(env, env_from)| {
        env.iter().flatten().any(|variable| variable_refers_to(variable, kind, name))
            || env_from.iter().flatten().any(|source| source_refers_to(source, kind, name))
    })
}

fn variable_refers_to(variable: &EnvVar, kind: ReferenceKind, name: &str) -> bool {
    let Some(source) = &variable.value_from else { return false };
    match kind {
        ReferenceKind::ConfigMap => source.config_map_key_ref.as_ref().is_some_and(|key| key.name == name),
        ReferenceKind::Secret => source.secret_key_ref.as_ref().is_some_and(|key| key.name == name),
    }
}

fn source_refers_to(source: &EnvFromSource, kind: ReferenceKind, name: &str) -> bool {
    match kind {
        ReferenceKind::ConfigMap => source.config_map_ref.as_ref().is_some_and(|reference| reference.name == name),
        ReferenceKind::Secret => source.secret_ref.as_ref().is_some_and(|reference| reference.name == name),
    }
}

fn volume_refers_to(volume: &Volume, kind: ReferenceKind, name: &str) -> bool {
    let is_named = match kind {
        ReferenceKind::ConfigMap => volume.config_map.as_ref().is_some_and(|source| source.name == name),
        ReferenceKind::Secret => {
            volume.secret.as_ref().is_some_and(|source| source.secret_name.as_deref() == Some(name))
        }
    };
    is_named || volume.projected.as_ref().is_some_and(|projected| projection_refers_to(projected, kind, name))
}

fn projection_refers_to(projected: &ProjectedVolumeSource, kind: ReferenceKind, name: &str) -> bool {
    projected.sources.iter().flatten().any(|source| match kind {
        ReferenceKind::ConfigMap => source.config_map.as_ref().is_some_and(|source| source.name == name),
        ReferenceKind::Secret => source.secret.as_ref().is_some_and(|source| source.name == name),
    })
}
