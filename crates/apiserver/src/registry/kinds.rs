//! Which functions of `api` hold for which kind.
//!
//! One line each: a kind without functions of its own has only the rules of metadata.

use api::field::FieldError;
use api::strategy::gates::Gates;
use api::{defaults, strategy, validation, warnings};
use jiff::Timestamp;
use k8s_openapi::api::{
    batch::v1 as batch, coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery,
    events::v1 as events, node::v1 as node, policy::v1 as policy, rbac::v1 as rbac, scheduling::v1 as scheduling,
};

use super::Part;
use super::typed::Object;

/// A kind's laws.
pub(super) trait Law: Object {
    /// Fills in what was left out.
    fn default(&mut self) {}

    /// Sets what a new object begins with; gives warnings.
    fn prepare_create(&mut self, _now: Timestamp) -> Vec<String> {
        Vec::new()
    }

    /// Sets what an update keeps.
    fn prepare_update(&mut self, _old: &Self, _part: Part) {}

    /// The rules that a new object breaks.
    fn validate_create(&self) -> Vec<FieldError> {
        validation::validate_metadata(self.metadata(), self.metadata().namespace.is_some())
    }

    /// The rules that an update breaks.
    fn validate_update(&self, old: &Self, _part: Part) -> Vec<FieldError> {
        validation::validate_metadata_update(self.metadata(), old.metadata())
    }

    /// What the client should know, though nothing is wrong.
    fn warnings(&self, _old: Option<&Self>) -> Vec<String> {
        Vec::new()
    }
}

impl Law for core::Pod {
    fn default(&mut self) {
        defaults::pod(self);
    }

    fn prepare_create(&mut self, now: Timestamp) -> Vec<String> {
        strategy::pod::prepare_for_create(self, now, Gates::default())
    }

    fn prepare_update(&mut self, old: &Self, part: Part) {
        match part {
            Part::Main => strategy::pod::prepare_for_update(self, old, Gates::default()),
            Part::Status => strategy::pod::prepare_for_status_update(self, old, Gates::default()),
            Part::EphemeralContainers => {
                strategy::pod::prepare_for_ephemeral_containers_update(self, old, Gates::default());
            }
            Part::Finalize | Part::Binding => {}
        }
    }

    fn validate_create(&self) -> Vec<FieldError> {
        validation::validate_pod(self)
    }

    fn validate_update(&self, old: &Self, part: Part) -> Vec<FieldError> {
        match part {
            Part::Main => validation::validate_pod_update(self, old),
            Part::Status => validation::validate_pod_status_update(self, old),
            Part::EphemeralContainers => validation::validate_ephemeral_containers_update(self, old),
            Part::Finalize | Part::Binding => Vec::new(),
        }
    }

    fn warnings(&self, _old: Option<&Self>) -> Vec<String> {
        warnings::pod(self)
    }
}

impl Law for batch::Job {
    fn default(&mut self) {
        defaults::job(self);
    }

    fn prepare_create(&mut self, _now: Timestamp) -> Vec<String> {
        strategy::job::prepare_for_create(self, Gates::default());
        Vec::new()
    }

    fn prepare_update(&mut self, old: &Self, part: Part) {
        match part {
            Part::Status => strategy::job::prepare_for_status_update(self, old),
            _ => strategy::job::prepare_for_update(self, old, Gates::default()),
        }
    }

    fn validate_create(&self) -> Vec<FieldError> {
        validation::validate_job(self)
    }

    fn validate_update(&self, old: &Self, part: Part) -> Vec<FieldError> {
        match part {
            Part::Status => validation::validate_job_status_update(self, old),
            _ => validation::validate_job_update(self, old),
        }
    }

    fn warnings(&self, old: Option<&Self>) -> Vec<String> {
        match old {
            None => warnings::job(self),
            Some(old) => warnings::job_update(self, old),
        }
    }
}

impl Law for batch::CronJob {
    fn default(&mut self) {
        defaults::cron_job(self);
    }

    fn prepare_create(&mut self, _now: Timestamp) -> Vec<String> {
        strategy::cron_job::prepare_for_create(self, Gates::default());
        Vec::new()
    }

    fn prepare_update(&mut self, old: &Self, part: Part) {
        match part {
            Part::Status => strategy::cron_job::prepare_for_status_update(self, old),
            _ => strategy::cron_job::prepare_for_update(self, old, Gates::default()),
        }
    }

    fn validate_create(&self) -> Vec<FieldError> {
        validation::validate_cron_job(self)
    }

    fn validate_update(&self, old: &Self, part: Part) -> Vec<FieldError> {
        match part {
            Part::Status => validation::validate_metadata_update(&self.metadata, &old.metadata),
            _ => validation::validate_cron_job_update(self, old),
        }
    }

    fn warnings(&self, old: Option<&Self>) -> Vec<String> {
        match old {
            None => warnings::cron_job(self),
            Some(old) => warnings::cron_job_update(self, old),
        }
    }
}

impl Law for core::Namespace {
    fn default(&mut self) {
        defaults::namespace(self);
    }

    fn prepare_create(&mut self, _now: Timestamp) -> Vec<String> {
        strategy::namespace::prepare_for_create(self);
        Vec::new()
    }

    fn prepare_update(&mut self, old: &Self, part: Part) {
        match part {
            Part::Status => strategy::namespace::prepare_for_status_update(self, old),
            Part::Finalize => strategy::namespace::prepare_for_finalize(self, old),
            _ => strategy::namespace::prepare_for_update(self, old),
        }
    }

    fn validate_create(&self) -> Vec<FieldError> {
        validation::validate_namespace(self)
    }

    fn validate_update(&self, old: &Self, part: Part) -> Vec<FieldError> {
        match part {
            Part::Status => validation::validate_namespace_status_update(self, old),
            Part::Finalize => validation::validate_namespace_finalize_update(self, old),
            _ => validation::validate_namespace_update(self, old),
        }
    }
}

impl Law for core::Service {
    fn default(&mut self) {
        defaults::service(self);
    }

    fn prepare_create(&mut self, _now: Timestamp) -> Vec<String> {
        strategy::service::prepare_for_create(self);
        Vec::new()
    }

    fn prepare_update(&mut self, old: &Self, part: Part) {
        match part {
            Part::Status => strategy::service::prepare_for_status_update(self, old),
            _ => strategy::service::prepare_for_update(self, old),
        }
    }

    fn validate_create(&self) -> Vec<FieldError> {
        validation::validate_service(self)
    }

    fn validate_update(&self, old: &Self, part: Part) -> Vec<FieldError> {
        match part {
            Part::Status => validation::validate_service_status_update(self, old),
            _ => validation::validate_service_update(self, old),
        }
    }

    fn warnings(&self, _old: Option<&Self>) -> Vec<String> {
        warnings::service(self)
    }
}

impl Law for core::Secret {
    fn default(&mut self) {
        defaults::secret(self);
    }

    fn prepare_update(&mut self, old: &Self, _part: Part) {
        strategy::secret::prepare_for_update(self, old);
    }

    fn validate_create(&self) -> Vec<FieldError> {
        validation::validate_secret(self)
    }

    fn validate_update(&self, old: &Self, _part: Part) -> Vec<FieldError> {
        validation::validate_secret_update(self, old)
    }
}

impl Law for core::ServiceAccount {
    fn default(&mut self) {
        defaults::service_account(self);
    }

    fn prepare_create(&mut self, _now: Timestamp) -> Vec<String> {
        strategy::service_account::prepare(self);
        Vec::new()
    }

    fn prepare_update(&mut self, _old: &Self, _part: Part) {
        strategy::service_account::prepare(self);
    }

    fn validate_create(&self) -> Vec<FieldError> {
        validation::validate_service_account(self)
    }

    fn validate_update(&self, old: &Self, _part: Part) -> Vec<FieldError> {
        validation::validate_service_account_update(self, old)
    }

    fn warnings(&self, old: Option<&Self>) -> Vec<String> {
        warnings::service_account(self, old)
    }
}

/// A kind whose laws are one function for each part.
macro_rules! simple_law {
    ($kind:ty, $default:expr, $create:expr, $update:expr) => {
        impl Law for $kind {
            fn default(&mut self) {
                $default(self);
            }

            fn validate_create(&self) -> Vec<FieldError> {
                $create(self)
            }

            fn validate_update(&self, old: &Self, _part: Part) -> Vec<FieldError> {
                $update(self, old)
            }
        }
    };
}

/// A kind with defaults alone; metadata is validated.
macro_rules! defaults_alone {
    ($kind:ty, $default:expr) => {
        impl Law for $kind {
            fn default(&mut self) {
                $default(self);
            }
        }
    };
}

simple_law!(
    core::ConfigMap,
    defaults::config_map,
    validation::validate_config_map,
    validation::validate_config_map_update
);
simple_law!(
    core::Endpoints,
    defaults::endpoints,
    validation::validate_endpoints,
    validation::validate_endpoints_update
);
simple_law!(coordination::Lease, |_: &mut _| {}, validation::validate_lease, validation::validate_lease_update);
simple_law!(
    scheduling::PriorityClass,
    defaults::priority_class,
    validation::validate_priority_class,
    validation::validate_priority_class_update
);
defaults_alone!(core::PodTemplate, defaults::pod_template);
defaults_alone!(core::Node, defaults::node);
defaults_alone!(discovery::EndpointSlice, defaults::endpoint_slice);
defaults_alone!(node::RuntimeClass, |_: &mut _| {});
defaults_alone!(policy::PodDisruptionBudget, |_: &mut _| {});

impl Law for core::Event {
    fn default(&mut self) {
        defaults::event(self);
    }
}

impl Law for events::Event {}

/// Roles and bindings: their names may hold colons, and a binding's role never changes.
macro_rules! rbac_law {
    ($kind:ty, $old:ident, $new:ident, $is_same:expr) => {
        impl Law for $kind {
            fn validate_create(&self) -> Vec<FieldError> {
                Vec::new()
            }

            fn validate_update(&self, $old: &Self, _part: Part) -> Vec<FieldError> {
                let $new = self;
                if $is_same {
                    return Vec::new();
                }
                let at = api::field::FieldPath::root("roleRef");
                let role =
                    serde_json::to_value(&self).ok().and_then(|it| it.get("roleRef").cloned()).unwrap_or_default();
                vec![FieldError::invalid(&at, role, "cannot change roleRef".to_owned())]
            }
        }
    };
}

rbac_law!(rbac::Role, _old, _new, true);
rbac_law!(rbac::ClusterRole, _old, _new, true);
rbac_law!(rbac::RoleBinding, old, new, old.role_ref == new.role_ref);
rbac_law!(rbac::ClusterRoleBinding, old, new, old.role_ref == new.role_ref);

/// Calls a generic function with the type of a resource's kind; the default for kinds that are not stored.
macro_rules! by_kind {
    ($resource:expr, $default:expr, $function:ident($($argument:expr),*)) => {{
        use k8s_openapi::api::{
            batch::v1 as batch, coordination::v1 as coordination, core::v1 as core, discovery::v1 as discovery,
            events::v1 as events, node::v1 as node, policy::v1 as policy, rbac::v1 as rbac,
            scheduling::v1 as scheduling,
        };
        match ($resource.group, $resource.kind) {
            ("", "Pod") => $function::<core::Pod>($($argument),*),
            ("", "ConfigMap") => $function::<core::ConfigMap>($($argument),*),
            ("", "Endpoints") => $function::<core::Endpoints>($($argument),*),
            ("", "Event") => $function::<core::Event>($($argument),*),
            ("", "Namespace") => $function::<core::Namespace>($($argument),*),
            ("", "Node") => $function::<core::Node>($($argument),*),
            ("", "PodTemplate") => $function::<core::PodTemplate>($($argument),*),
            ("", "Secret") => $function::<core::Secret>($($argument),*),
            ("", "Service") => $function::<core::Service>($($argument),*),
            ("", "ServiceAccount") => $function::<core::ServiceAccount>($($argument),*),
            ("batch", "CronJob") => $function::<batch::CronJob>($($argument),*),
            ("batch", "Job") => $function::<batch::Job>($($argument),*),
            ("coordination.k8s.io", "Lease") => $function::<coordination::Lease>($($argument),*),
            ("discovery.k8s.io", "EndpointSlice") => $function::<discovery::EndpointSlice>($($argument),*),
            ("events.k8s.io", "Event") => $function::<events::Event>($($argument),*),
            ("node.k8s.io", "RuntimeClass") => $function::<node::RuntimeClass>($($argument),*),
            ("policy", "PodDisruptionBudget") => $function::<policy::PodDisruptionBudget>($($argument),*),
            ("rbac.authorization.k8s.io", "ClusterRole") => $function::<rbac::ClusterRole>($($argument),*),
            ("rbac.authorization.k8s.io", "ClusterRoleBinding") => $function::<rbac::ClusterRoleBinding>($($argument),*),
            ("rbac.authorization.k8s.io", "Role") => $function::<rbac::Role>($($argument),*),
            ("rbac.authorization.k8s.io", "RoleBinding") => $function::<rbac::RoleBinding>($($argument),*),
            ("scheduling.k8s.io", "PriorityClass") => $function::<scheduling::PriorityClass>($($argument),*),
            _ => $default,
        }
    }};
}

pub(super) use by_kind;
