//! The pod's `/etc/resolv.conf` (L-912).
//!
//! Pure: the node's file and the pod's wishes in, text and warnings out.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Pod, PodDNSConfigOption};

const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_CHARACTERS_MAX: usize = 2048;
const SEARCH_PATH_CHARACTERS_MAX: usize = 253;

/// The DNS of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterDns {
    /// Its servers; empty if there is none.
    pub servers: Vec<IpAddr>,
    /// Its domain, `cluster.local`.
    pub domain: String,
}

/// The text of the file and what is to be said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvConf {
    /// The file.
    pub text: String,
    /// Messages of `DNSConfigForming` events.
    pub warnings: Vec<String>,
    /// The cluster has no DNS although the pod asks for it: the message of the `MissingClusterDNS` event.
    pub missing_cluster_dns: Option<String>,
}

#[derive(Debug, Default)]
struct Resolver {
    nameservers: Vec<String>,
    searches: Vec<String>,
    options: Vec<String>,
}

/// The file of a pod.
pub fn pod_resolv_conf(pod: &Pod, dns: &ClusterDns, node_resolv_conf: &str) -> ResolvConf {
    let spec = pod.spec.clone().unwrap_or_default();
    let policy = spec.dns_policy.as_deref().unwrap_or("ClusterFirst");
    let asks_cluster = match policy {
        "ClusterFirst" => spec.host_network != Some(true),
        "ClusterFirstWithHostNet" => true,
        _ => false,
    };
    let mut resolver = Resolver::parse(node_resolv_conf);
    if policy == "None" {
        resolver = Resolver::default();
    } else if asks_cluster && !dns.servers.is_empty() {
        resolver = resolver.of_cluster(dns, pod.metadata.namespace.as_deref().unwrap_or_default());
    }
    let missing_cluster_dns = (asks_cluster && dns.servers.is_empty()).then(|| missing_message(pod));
    if let Some(config) = &spec.dns_config {
        append_new(&mut resolver.nameservers, config.nameservers.iter().flatten());
        append_new(&mut resolver.searches, config.searches.iter().flatten());
        config.options.iter().flatten().for_each(|option| resolver.set_option(&option_text(option)));
    }
    let warnings = resolver.cut_to_limits();
    ResolvConf { text: resolver.to_text(), warnings, missing_cluster_dns }
}

fn missing_message(pod: &Pod) -> String {
    format!(
        "pod: \"{}\". kubelet does not have ClusterDNS IP configured and cannot create Pod using \"ClusterFirst\" policy. \
         Falling back to \"Default\" policy.",
        super::pod_description(pod)
    )
}

impl Resolver {
    /// Reads a resolv.conf(5): nameservers add up, of search lines the last one counts, of options of one name the last.
    fn parse(text: &str) -> Resolver {
        let mut resolver = Resolver::default();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => resolver.nameservers.extend(words.next().map(str::to_owned)),
                Some("search") => {
                    let paths = words.filter(|path| *path != ".");
                    resolver.searches = paths.map(|path| path.strip_suffix('.').unwrap_or(path).to_owned()).collect();
                }
                Some("options") => words.for_each(|option| resolver.set_option(option)),
                _ => {}
            }
        }
        resolver
    }

    fn of_cluster(self, dns: &ClusterDns, namespace: &str) -> Resolver {
        let domain = &dns.domain;
        let mut searches = Vec::new();
        if !domain.is_empty() {
            searches = vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()];
        }
        append_new(&mut searches, &self.searches);
        let nameservers = dns.servers.iter().map(IpAddr::to_string).collect();
        Resolver { nameservers, searches, options: vec!["ndots:5".to_owned()] }
    }

    fn set_option(&mut self, option: &str) {
        let name = |text: &str| text.split(':').next().map(str::to_owned);
        match self.options.iter_mut().find(|known| name(known) == name(option)) {
            Some(known) => *known = option.to_owned(),
            None => self.options.push(option.to_owned()),
        }
    }

    /// Drops what resolvers would not take, and says so.
    fn cut_to_limits(&mut self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.nameservers.len() > NAMESERVERS_MAX {
            self.nameservers.truncate(NAMESERVERS_MAX);
            warnings.push(format!(
                "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {}",
                self.nameservers.join(" ")
            ));
        }
        let asked = self.searches.len();
        self.searches.truncate(SEARCHES_MAX);
        self.searches.retain(|path| path.len() <= SEARCH_PATH_CHARACTERS_MAX);
        while self.searches.join(" ").len() > SEARCH_CHARACTERS_MAX {
            self.searches.pop();
        }
        if self.searches.len() < asked {
            warnings.push(format!(
                "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {}",
                self.searches.join(" ")
            ));
        }
        warnings
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        if !self.searches.is_empty() {
            text += &format!("search {}\n", self.searches.join(" "));
        }
        self.nameservers.iter().for_each(|server| text += &format!("nameserver {server}\n"));
        if !self.options.is_empty() {
            text += &format!("options {}\n", self.options.join(" "));
        }
        text
    }
}

fn append_new<'a>(list: &mut Vec<String>, more: impl IntoIterator<Item = &'a String>) {
    for text in more {
        if !list.contains(text) {
            list.push(text.clone());
        }
    }
}

fn option_text(option: &PodDNSConfigOption) -> String {
    let name = option.name.as_deref().unwrap_or_default();
    match option.value.as_deref() {
        Some(value) if !value.is_empty() => format!("{name}:{value}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

    const NODE: &str = "# node\nnameserver 192.168.0.1\nsearch old.example\nsearch example.com. . lan\noptions ndots:2 rotate\noptions ndots:3";

    fn make(spec: Value, servers: &[&str]) -> Result<ResolvConf> {
        let metadata = serde_json::from_value(json!({"name": "p", "namespace": "ns", "uid": "u"}))?;
        let pod = Pod { metadata, spec: Some(serde_json::from_value(spec)?), status: None };
        let servers = servers.iter().map(|server| server.parse()).collect::<std::result::Result<_, _>>()?;
        Ok(pod_resolv_conf(&pod, &ClusterDns { servers, domain: "cluster.local".into() }, NODE))
    }

    fn check(spec: Value, text: &str) -> Result {
        let expected = ResolvConf { text: text.into(), warnings: Vec::new(), missing_cluster_dns: None };
        assert_eq!(make(spec, &["10.96.0.10"])?, expected);
        Ok(())
    }

    const CLUSTER: &str = "search ns.svc.cluster.local svc.cluster.local cluster.local example.com lan\nnameserver 10.96.0.10\noptions ndots:5\n";
    const DEFAULT: &str = "search example.com lan\nnameserver 192.168.0.1\noptions ndots:3 rotate\n";

    #[test]
    fn each_policy_has_its_base() -> Result {
        check(json!({"dnsPolicy": "ClusterFirst"}), CLUSTER)?;
        check(json!({"dnsPolicy": "ClusterFirst", "hostNetwork": true}), DEFAULT)?;
        check(json!({"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true}), CLUSTER)?;
        check(json!({"dnsPolicy": "Default"}), DEFAULT)?;
        check(json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.1.1.1"]}}), "nameserver 1.1.1.1\n")
    }

    #[test]
    fn the_pods_own_config_is_appended() -> Result {
        let config = json!({"nameservers": ["1.1.1.1", "10.96.0.10"], "searches": ["lan", "my.org"],
                            "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}]});
        let expected = "search ns.svc.cluster.local svc.cluster.local cluster.local example.com lan my.org\n\
                        nameserver 10.96.0.10\nnameserver 1.1.1.1\noptions ndots:2 edns0\n";
        check(json!({"dnsPolicy": "ClusterFirst", "dnsConfig": config}), expected)
    }

    #[test]
    fn without_cluster_dns_the_nodes_file_is_taken_with_a_word() -> Result {
        let made = make(json!({}), &[])?;
        let message = "pod: \"p_ns(u)\". kubelet does not have ClusterDNS IP configured and cannot create Pod using \
                       \"ClusterFirst\" policy. Falling back to \"Default\" policy.";
        assert_eq!((made.text.as_str(), made.missing_cluster_dns.as_deref()), (DEFAULT, Some(message)));
        Ok(())
    }

    #[test]
    fn what_exceeds_the_limits_is_dropped_with_a_word() -> Result {
        let servers = ["1.1.1.1", "2.2.2.2", "3.3.3.3", "4.4.4.4"];
        let searches: Vec<String> = (0..40).map(|number| format!("{number}{}", "x".repeat(98))).collect();
        let config = json!({"nameservers": servers, "searches": searches});
        let made = make(json!({"dnsPolicy": "None", "dnsConfig": config}), &[])?;
        let kept = searches.iter().take(20).cloned().collect::<Vec<_>>().join(" ");
        let expected = [
            "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 1.1.1.1 2.2.2.2 3.3.3.3".to_owned(),
            format!("Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {kept}"),
        ];
        assert_eq!(made.warnings, expected);
        Ok(())
    }
}
