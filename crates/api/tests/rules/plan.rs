//! What the API server does with an object, kind by kind: default, prepare, check.

use api::field::FieldError;
use api::strategy::gates::Gates;
use api::{defaults, strategy, validation, warnings};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::paths;
use crate::table::{Row, Table, lines};

/// What came of a row.
#[derive(Default)]
pub(crate) struct Answer {
    pub(crate) errors: Vec<String>,
    pub(crate) warnings: Vec<String>,
    pub(crate) result: Vec<String>,
    pub(crate) whole: Vec<String>,
}

/// How objects of a type are created, and changed by one operation.
struct Plan<T> {
    default: fn(&mut T),
    create: fn(&mut T) -> Vec<String>,
    check: fn(&T) -> Vec<FieldError>,
    warn: fn(&T) -> Vec<String>,
    change: Option<Change<T>>,
}

struct Change<T> {
    prepare: fn(&mut T, &T),
    check: fn(&T, &T) -> Vec<FieldError>,
    warn: fn(&T, &T) -> Vec<String>,
}

const GATES: Gates = Gates { container_stop_signals: true };

/// The answer to a row.
pub(crate) fn answer(table: &Table, row: &Row) -> Result<Answer, String> {
    match table.kind.as_str() {
        "pod" => pod(&table.operation)?.answer(&table.base, row),
        "job" => job(&table.operation)?.answer(&table.base, row),
        "cronJob" => cron_job(&table.operation)?.answer(&table.base, row),
        "configMap" => simple(
            &table.operation,
            Plan::new(defaults::config_map, validation::validate_config_map),
            (|_, _| {}, validation::validate_config_map_update),
        )?
        .answer(&table.base, row),
        "secret" => simple(
            &table.operation,
            Plan::new(defaults::secret, validation::validate_secret),
            (strategy::secret::prepare_for_update, validation::validate_secret_update),
        )?
        .answer(&table.base, row),
        "service" => service(&table.operation)?.answer(&table.base, row),
        kind => small_kind(kind, table, row),
    }
}

fn small_kind(kind: &str, table: &Table, row: &Row) -> Result<Answer, String> {
    let operation = table.operation.as_str();
    match kind {
        "namespace" => namespace(operation)?.answer(&table.base, row),
        "serviceAccount" => {
            let mut plan = Plan::new(defaults::service_account, validation::validate_service_account);
            plan.create = |account| {
                strategy::service_account::prepare(account);
                Vec::new()
            };
            plan.warn = |account| warnings::service_account(account, None);
            simple(operation, plan, (|_, _| {}, validation::validate_service_account_update))?.answer(&table.base, row)
        }
        "priorityClass" => {
            let plan = Plan::new(defaults::priority_class, validation::validate_priority_class);
            simple(operation, plan, (|_, _| {}, validation::validate_priority_class_update))?.answer(&table.base, row)
        }
        "lease" => {
            let plan = Plan::new(|_| {}, validation::validate_lease);
            simple(operation, plan, (|_, _| {}, validation::validate_lease_update))?.answer(&table.base, row)
        }
        "event" => {
            let plan = Plan::new(defaults::event, validation::validate_core_event);
            simple(operation, plan, (|_, _| {}, validation::validate_event_update))?.answer(&table.base, row)
        }
        "endpoints" => {
            let mut plan = Plan::new(defaults::endpoints, validation::validate_endpoints);
            plan.warn = warnings::endpoints;
            simple(operation, plan, (|_, _| {}, validation::validate_endpoints_update))?.answer(&table.base, row)
        }
        "binding" => Plan::new(|_| {}, validation::validate_binding).answer(&table.base, row),
        "persistentVolumeClaim" => {
            let mut plan = Plan::new(defaults::persistent_volume_claim, validation::validate_persistent_volume_claim);
            plan.warn = warnings::persistent_volume_claim;
            plan.answer(&table.base, row)
        }
        kind => workload(kind, table, row),
    }
}

fn workload(kind: &str, table: &Table, row: &Row) -> Result<Answer, String> {
    match kind {
        "deployment" => {
            let mut plan = Plan::new(defaults::deployment, validation::validate_deployment);
            plan.warn = warnings::deployment;
            plan.answer(&table.base, row)
        }
        "replicaSet" => Plan::new(defaults::replica_set, validation::validate_replica_set).answer(&table.base, row),
        "daemonSet" => Plan::new(defaults::daemon_set, validation::validate_daemon_set).answer(&table.base, row),
        "statefulSet" => {
            let mut plan = Plan::new(defaults::stateful_set, validation::validate_stateful_set);
            plan.warn = warnings::stateful_set;
            plan.answer(&table.base, row)
        }
        "replicationController" => {
            Plan::new(defaults::replication_controller, validation::validate_replication_controller)
                .answer(&table.base, row)
        }
        kind => Err(format!("kind `{kind}` is unknown")),
    }
}

fn pod(operation: &str) -> Result<Plan<Pod>, String> {
    let mut plan = Plan::new(defaults::pod, validation::validate_pod);
    plan.create = |pod| strategy::pod::prepare_for_create(pod, Timestamp::UNIX_EPOCH, GATES);
    if operation == "statusOfEnded" {
        plan.create = |pod| {
            let warnings = strategy::pod::prepare_for_create(pod, Timestamp::UNIX_EPOCH, GATES);
            pod.status.get_or_insert_default().container_statuses = Some(vec![ended()]);
            warnings
        };
    }
    plan.warn = warnings::pod;
    plan.change = match operation {
        "create" => None,
        "update" => Some(Change {
            prepare: |new, old| strategy::pod::prepare_for_update(new, old, GATES),
            check: validation::validate_pod_update,
            warn: |_, _| Vec::new(),
        }),
        "status" | "statusOfEnded" => Some(Change {
            prepare: |new, old| strategy::pod::prepare_for_status_update(new, old, GATES),
            check: validation::validate_pod_status_update,
            warn: |new, _| warnings::pod_status_update(new),
        }),
        "ephemeralContainers" => Some(Change {
            prepare: |new, old| strategy::pod::prepare_for_ephemeral_containers_update(new, old, GATES),
            check: validation::validate_ephemeral_containers_update,
            warn: |_, _| Vec::new(),
        }),
        "resize" => Some(Change {
            prepare: |new, old| strategy::pod::prepare_for_resize(new, old, GATES),
            check: validation::validate_pod_resize,
            warn: |_, _| Vec::new(),
        }),
        other => return Err(format!("operation `{other}` is unknown")),
    };
    Ok(plan)
}

/// The first container's status after it ended with exit code 3.
fn ended() -> ContainerStatus {
    let terminated = ContainerStateTerminated { exit_code: 3, ..Default::default() };
    ContainerStatus {
        name: "a".to_owned(),
        image: "i".to_owned(),
        state: Some(ContainerState { terminated: Some(terminated), ..Default::default() }),
        ..Default::default()
    }
}

fn job(operation: &str) -> Result<Plan<k8s_openapi::api::batch::v1::Job>, String> {
    let mut plan = Plan::new(defaults::job, validation::validate_job);
    plan.create = |job| {
        strategy::job::prepare_for_create(job, GATES);
        Vec::new()
    };
    plan.warn = warnings::job;
    plan.change = match operation {
        "create" => None,
        "update" => Some(Change {
            prepare: |new, old| strategy::job::prepare_for_update(new, old, GATES),
            check: validation::validate_job_update,
            warn: warnings::job_update,
        }),
        "status" => Some(Change {
            prepare: strategy::job::prepare_for_status_update,
            check: validation::validate_job_status_update,
            warn: |_, _| Vec::new(),
        }),
        other => return Err(format!("operation `{other}` is unknown")),
    };
    Ok(plan)
}

fn cron_job(operation: &str) -> Result<Plan<k8s_openapi::api::batch::v1::CronJob>, String> {
    let mut plan = Plan::new(defaults::cron_job, validation::validate_cron_job);
    plan.create = |cron_job| {
        strategy::cron_job::prepare_for_create(cron_job, GATES);
        Vec::new()
    };
    plan.warn = warnings::cron_job;
    let prepare = |new: &mut _, old: &_| strategy::cron_job::prepare_for_update(new, old, GATES);
    let mut plan = simple(operation, plan, (prepare, validation::validate_cron_job_update))?;
    if let Some(change) = &mut plan.change {
        change.warn = warnings::cron_job_update;
    }
    Ok(plan)
}

fn service(operation: &str) -> Result<Plan<k8s_openapi::api::core::v1::Service>, String> {
    let mut plan = Plan::new(defaults::service, validation::validate_service);
    plan.create = |service| {
        strategy::service::prepare_for_create(service);
        Vec::new()
    };
    plan.warn = warnings::service;
    simple(operation, plan, (strategy::service::prepare_for_update, validation::validate_service_update))
}

fn namespace(operation: &str) -> Result<Plan<k8s_openapi::api::core::v1::Namespace>, String> {
    let mut plan = Plan::new(defaults::namespace, validation::validate_namespace);
    plan.create = |namespace| {
        strategy::namespace::prepare_for_create(namespace);
        Vec::new()
    };
    match operation {
        "status" => {
            let check = validation::validate_namespace_status_update;
            simple("update", plan, (strategy::namespace::prepare_for_status_update, check))
        }
        "finalize" => {
            let check = validation::validate_namespace_finalize_update;
            simple("update", plan, (strategy::namespace::prepare_for_finalize, check))
        }
        _ => {
            let check = validation::validate_namespace_update;
            simple(operation, plan, (strategy::namespace::prepare_for_update, check))
        }
    }
}

type UpdateSteps<T> = (fn(&mut T, &T), fn(&T, &T) -> Vec<FieldError>);

fn simple<T>(operation: &str, mut plan: Plan<T>, update: UpdateSteps<T>) -> Result<Plan<T>, String> {
    plan.change = match operation {
        "create" => None,
        "update" => Some(Change { prepare: update.0, check: update.1, warn: |_, _| Vec::new() }),
        other => return Err(format!("operation `{other}` is unknown")),
    };
    Ok(plan)
}

impl<T: Serialize + DeserializeOwned + Clone> Plan<T> {
    fn new(default: fn(&mut T), check: fn(&T) -> Vec<FieldError>) -> Plan<T> {
        Plan { default, create: |_| Vec::new(), check, warn: |_| Vec::new(), change: None }
    }

    fn answer(&self, base: &Value, row: &Row) -> Result<Answer, String> {
        let nothing = Map::new();
        let (plain, given) = match &self.change {
            None => (self.created(base, &nothing)?.0, self.created(base, &row.set)?),
            Some(change) => {
                let (old, _) = self.created(base, &row.old)?;
                let old = stored(&old)?;
                let wrong = (self.check)(&old);
                if !wrong.is_empty() {
                    return Err(format!("the old object is wrong: {}", texts(&wrong).join("; ")));
                }
                let (plain, _) = self.changed(change, &old, &nothing)?;
                (plain, self.changed(change, &old, &row.set)?)
            }
        };
        let (object, mut answer) = given;
        let (before, after) = (paths::leaves(&json(&plain)?), paths::leaves(&json(&object)?));
        let mut differs: Map<String, Value> = before.keys().map(|path| (path.clone(), Value::Null)).collect();
        differs.extend(after.clone());
        differs.retain(|path, value| before.get(path) != Some(value));
        answer.result = lines(&differs);
        answer.whole = lines(after.iter().filter(|(path, _)| !["apiVersion", "kind"].contains(&path.as_str())));
        Ok(answer)
    }

    fn created(&self, base: &Value, changes: &Map<String, Value>) -> Result<(T, Answer), String> {
        let mut object = self.read(base.clone(), changes)?;
        (self.default)(&mut object);
        self.check_stable(&object)?;
        let mut warnings = (self.create)(&mut object);
        warnings.extend((self.warn)(&object));
        let errors = texts(&(self.check)(&object));
        Ok((object, Answer { errors, warnings, ..Answer::default() }))
    }

    fn changed(&self, change: &Change<T>, old: &T, changes: &Map<String, Value>) -> Result<(T, Answer), String> {
        let mut object = self.read(json(old)?, changes)?;
        (self.default)(&mut object);
        (change.prepare)(&mut object, old);
        let errors = texts(&(change.check)(&object, old));
        let warnings = (change.warn)(&object, old);
        Ok((object, Answer { errors, warnings, ..Answer::default() }))
    }

    /// what was filled in once stays as it is.
    fn check_stable(&self, object: &T) -> Result<(), String> {
        let mut again = object.clone();
        (self.default)(&mut again);
        let (once, twice) = (json(object)?, json(&again)?);
        if once == twice { Ok(()) } else { Err(format!("filled in twice, it is {twice} and not {once}")) }
    }

    fn read(&self, mut object: Value, changes: &Map<String, Value>) -> Result<T, String> {
        for (path, value) in changes {
            paths::set(&mut object, path, value)?;
        }
        serde_json::from_value(object).map_err(|error| error.to_string())
    }
}

/// The object as the server gives it back, with the revision of its write.
fn stored<T: Serialize + DeserializeOwned>(object: &T) -> Result<T, String> {
    let mut object = json(object)?;
    paths::set(&mut object, "metadata.resourceVersion", &Value::from("1"))?;
    serde_json::from_value(object).map_err(|error| error.to_string())
}

fn json<T: Serialize>(object: &T) -> Result<Value, String> {
    serde_json::to_value(object).map_err(|error| error.to_string())
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}
