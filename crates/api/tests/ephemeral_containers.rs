//! Ephemeral containers stay as they are once they are there (L-1219).
//!
//! No table's row says so, since no pod begins with them.

use api::field::FieldError;
use api::strategy::gates::Gates;
use api::{defaults, strategy, validation};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn pod(ephemeral_containers: Value) -> serde_json::Result<Pod> {
    let mut pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "1"},
        "spec": {"containers": [{"name": "a", "image": "i"}], "ephemeralContainers": ephemeral_containers},
    }))?;
    defaults::pod(&mut pod);
    Ok(pod)
}

fn errors_of_change(new: Value) -> serde_json::Result<Vec<String>> {
    let old = pod(json!([{"name": "d", "image": "i"}]))?;
    let mut new = pod(new)?;
    strategy::pod::prepare_for_ephemeral_containers_update(&mut new, &old, Gates::default());
    let errors = validation::validate_ephemeral_containers_update(&new, &old);
    Ok(errors.iter().map(FieldError::to_string).collect())
}

#[test]
fn l_1219_another_may_come() -> Outcome {
    let errors = errors_of_change(json!([{"name": "d", "image": "i"}, {"name": "e", "image": "i"}]))?;
    assert_eq!(errors, Vec::<String>::new());
    Ok(())
}

#[test]
fn l_1219_none_goes() -> Outcome {
    let errors = errors_of_change(json!([]))?;
    let wanted = "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"d\" may not be removed\n";
    assert_eq!(errors, [wanted]);
    Ok(())
}

#[test]
fn l_1219_none_changes() -> Outcome {
    let errors = errors_of_change(json!([{"name": "d", "image": "j"}]))?;
    let wanted = "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"d\" may not be changed\n\
        @@ -1,5 +1,5 @@\n \
        {\n\
        -  \"image\": \"i\",\n\
        +  \"image\": \"j\",\n \
        \x20 \"imagePullPolicy\": \"Always\",\n \
        \x20 \"name\": \"d\",\n \
        \x20 \"terminationMessagePath\": \"/dev/termination-log\",\n";
    assert_eq!(errors, [wanted]);
    Ok(())
}
