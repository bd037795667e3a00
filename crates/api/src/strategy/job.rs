//! Jobs: selector and labels, status and generation (J-13 to J-17).

use k8s_openapi::api::batch::v1::{Job, JobStatus};

use super::bump_generation;
use super::gates::{Gates, drop_disabled_template_fields};
use crate::absent::text;

/// The label of a Job's pods that carries its uid.
pub const CONTROLLER_UID_LABEL: &str = "batch.kubernetes.io/controller-uid";
/// The label of a Job's pods that carries its name.
pub const JOB_NAME_LABEL: &str = "batch.kubernetes.io/job-name";
const OLD_CONTROLLER_UID_LABEL: &str = "controller-uid";
const OLD_JOB_NAME_LABEL: &str = "job-name";

/// Makes a new Job of what was sent: selector and labels generated unless the user chose them, no status, generation 1.
/// Name and uid are set already.
pub fn prepare_for_create(job: &mut Job, gates: Gates) {
    generate_selector(job);
    job.status = Some(JobStatus::default());
    job.metadata.generation = Some(1);
    let spec = job.spec.get_or_insert_default();
    // A field of a later version.
    spec.scheduling = None;
    drop_disabled_template_fields(&mut spec.template, None, gates);
}

/// Keeps the status, and counts the generation up if the spec changes.
pub fn prepare_for_update(new: &mut Job, old: &Job, gates: Gates) {
    new.status.clone_from(&old.status);
    let spec = new.spec.get_or_insert_default();
    spec.scheduling = None;
    drop_disabled_template_fields(&mut spec.template, old.spec.as_ref().map(|spec| &spec.template), gates);
    bump_generation(&mut new.metadata, &old.metadata, &new.spec, &old.spec);
}

/// Keeps the spec.
pub fn prepare_for_status_update(new: &mut Job, old: &Job) {
    new.spec.clone_from(&old.spec);
    new.metadata.generation = old.metadata.generation;
}

/// J-16: what the user wrote stays, and is refused by validation where it is wrong.
fn generate_selector(job: &mut Job) {
    let uid = text(&job.metadata.uid).to_owned();
    let name = text(&job.metadata.name).to_owned();
    let spec = job.spec.get_or_insert_default();
    if spec.manual_selector == Some(true) {
        return;
    }
    let labels = spec.template.metadata.get_or_insert_default().labels.get_or_insert_default();
    for (label, value) in [
        (OLD_JOB_NAME_LABEL, &name),
        (JOB_NAME_LABEL, &name),
        (OLD_CONTROLLER_UID_LABEL, &uid),
        (CONTROLLER_UID_LABEL, &uid),
    ] {
        labels.entry(label.to_owned()).or_insert_with(|| value.clone());
    }
    let selector = spec.selector.get_or_insert_default().match_labels.get_or_insert_default();
    selector.entry(CONTROLLER_UID_LABEL.to_owned()).or_insert(uid);
}
