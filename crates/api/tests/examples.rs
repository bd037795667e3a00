//! The manifests that come with the project have no errors and no warnings, and filling them in is stable.

use api::field::FieldError;
use api::strategy::gates::Gates;
use api::{defaults, manifest, strategy, validation, warnings};
use jiff::Timestamp;
use serde_json::{Value, json};

type Outcome = Result<(), Box<dyn std::error::Error>>;

/// What is wrong with an object once the server has prepared it.
fn wrong(kind: &str, mut object: Value) -> serde_json::Result<Vec<String>> {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("namespace".to_owned(), json!("default"));
        metadata.insert("uid".to_owned(), json!("u"));
    }
    let (errors, mut warnings) = match kind {
        "Pod" => {
            let mut pod = serde_json::from_value(object)?;
            defaults::pod(&mut pod);
            let mut warned = strategy::pod::prepare_for_create(&mut pod, Timestamp::UNIX_EPOCH, Gates::default());
            warned.extend(warnings::pod(&pod));
            (validation::validate_pod(&pod), warned)
        }
        "Job" => {
            let mut job = serde_json::from_value(object)?;
            defaults::job(&mut job);
            strategy::job::prepare_for_create(&mut job, Gates::default());
            (validation::validate_job(&job), warnings::job(&job))
        }
        "ConfigMap" => {
            let mut config_map = serde_json::from_value(object)?;
            defaults::config_map(&mut config_map);
            (validation::validate_config_map(&config_map), Vec::new())
        }
        "Secret" => {
            let mut secret = serde_json::from_value(object)?;
            defaults::secret(&mut secret);
            (validation::validate_secret(&secret), Vec::new())
        }
        other => return Ok(vec![format!("no check for {other}")]),
    };
    warnings.splice(0..0, errors.iter().map(FieldError::to_string));
    Ok(warnings)
}

#[test]
fn the_examples_are_valid() -> Outcome {
    let mut count = 0;
    for entry in std::fs::read_dir("../../examples")? {
        let path = entry?.path();
        let (objects, diagnostics) = manifest::read(&path.to_string_lossy(), &std::fs::read_to_string(&path)?);
        assert_eq!(diagnostics, []);
        for object in objects {
            let name = format!("{} {}", path.display(), object.name());
            assert_eq!(wrong(&object.kind, object.value)?, Vec::<String>::new(), "{name}");
            count += 1;
        }
    }
    assert!(count > 5, "only {count} objects were looked at");
    Ok(())
}
