//! Options of Windows containers, which can stand in a manifest though they can't run here.

use k8s_openapi::api::core::v1::{PodSpec, WindowsSecurityContextOptions};

use crate::absent::flag;
use crate::containers;
use crate::field::FieldPath;
use crate::validation::errors::Errors;
use crate::validation::names::dns_subdomain;

const CREDENTIAL_BYTES_MAX: usize = 64 * 1024;
const DOMAIN_CHARACTERS_MAX: usize = 256;
const USER_CHARACTERS_MAX: usize = 104;

pub(super) fn validate_windows_options(
    options: Option<&WindowsSecurityContextOptions>,
    at: &FieldPath,
    errors: &mut Errors,
) {
    let Some(options) = options else { return };
    if let Some(name) = &options.gmsa_credential_spec_name {
        errors.invalid_text(&at.child("gmsaCredentialSpecName"), name, dns_subdomain(name));
    }
    if let Some(spec) = &options.gmsa_credential_spec {
        let at = at.child("gmsaCredentialSpec");
        if spec.is_empty() {
            errors.invalid(&at, "", "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > CREDENTIAL_BYTES_MAX {
            errors.invalid(&at, spec.as_str(), "gmsaCredentialSpec size must be under 64 KiB");
        }
    }
    if let Some(name) = &options.run_as_user_name {
        let at = at.child("runAsUserName");
        for wrong in user_name_errors(name) {
            errors.invalid(&at, name.as_str(), wrong);
        }
    }
}

/// Containers on the host itself are all of a pod's or none, and have the host's network.
pub(super) fn validate_host_process(spec: &PodSpec, at: &FieldPath, errors: &mut Errors) {
    let of_pod = spec.security_context.as_ref().and_then(|context| context.windows_options.as_ref()?.host_process);
    let containers = containers::all(spec);
    let mut count = 0;
    for (list, index, container) in &containers {
        let options = container.security_context.as_ref().and_then(|context| context.windows_options.as_ref());
        let own = options.and_then(|options| options.host_process);
        if let (Some(of_pod), Some(own)) = (of_pod, own)
            && of_pod != own
        {
            let at = at.child(list.field()).index(*index).child("securityContext").child("windowsOptions");
            let detail = format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
            errors.invalid(&at.child("hostProcess"), own, detail);
        }
        count += usize::from(own.or(of_pod) == Some(true));
    }
    if count == 0 {
        return;
    }
    if count != containers.len() {
        let detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(at, "", detail);
    }
    if !flag(spec.host_network) {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&at.child("hostNetwork"), false, detail);
    }
}

fn user_name_errors(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string".to_owned()];
    }
    if name.bytes().any(|byte| byte.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters".to_owned()];
    }
    let (domain, user) = match name.split('\\').collect::<Vec<_>>().as_slice() {
        [user] => (None, *user),
        [domain, user] => (Some(*domain), *user),
        _ => return vec!["runAsUserName cannot contain more than one backslash".to_owned()],
    };
    let mut wrong = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= DOMAIN_CHARACTERS_MAX) {
        wrong.push(format!("runAsUserName's Domain length must be under {DOMAIN_CHARACTERS_MAX} characters"));
    }
    if domain.is_some_and(|domain| !is_net_bios_name(domain) && !is_dns_domain(domain)) {
        wrong.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
    }
    if user.is_empty() {
        wrong.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > USER_CHARACTERS_MAX {
        wrong.push(format!("runAsUserName's User length must not be longer than {USER_CHARACTERS_MAX} characters"));
    }
    if !user.is_empty() && user.chars().all(|character| matches!(character, '.' | ' ')) {
        wrong.push("runAsUserName's User cannot contain only periods or spaces".to_owned());
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        wrong.push(r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#.to_owned());
    }
    wrong
}

fn is_net_bios_name(domain: &str) -> bool {
    let length = domain.chars().count();
    let bad = ['\\', '/', ':', '*', '?', '"', '<', '>', '|'];
    (1..=15).contains(&length) && !domain.starts_with('.') && !domain.contains(bad)
}

fn is_dns_domain(domain: &str) -> bool {
    domain.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    })
}
