//! The helpers that people run beside their apps: which of them never end by themselves.
//!
//! A name is looked for in the last part of an image's reference, since registries and mirrors differ.
//! What is not listed here is simply unknown; nothing is concluded from that.

/// What is known of one helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Helper {
    /// The last part of the image's name, without registry, tag and digest.
    pub image_name: &'static str,
    /// What it is, for people: `a database proxy`.
    pub description: &'static str,
}

const fn helper(image_name: &'static str, description: &'static str) -> Helper {
    Helper { image_name, description }
}

/// Helpers that run until they are told to stop.
pub const NEVER_ENDING: &[Helper] = &[
    helper("cloud-sql-proxy", "a database proxy"),
    helper("gce-proxy", "a database proxy"),
    helper("alloydb-auth-proxy", "a database proxy"),
    helper("pgbouncer", "a connection pooler"),
    helper("pgcat", "a connection pooler"),
    helper("proxysql", "a database proxy"),
    helper("haproxy", "a proxy"),
    helper("envoy", "a proxy"),
    helper("proxyv2", "a mesh proxy"),
    helper("pilot", "a mesh proxy"),
    helper("linkerd-proxy", "a mesh proxy"),
    helper("kuma-dp", "a mesh proxy"),
    helper("consul-dataplane", "a mesh proxy"),
    helper("daprd", "an application runtime"),
    helper("oauth2-proxy", "an authentication proxy"),
    helper("kube-rbac-proxy", "an authorization proxy"),
    helper("tailscale", "a network agent"),
    helper("vault-agent", "a secrets agent"),
    helper("vault", "a secrets agent"),
    helper("fluent-bit", "a log shipper"),
    helper("fluentd", "a log shipper"),
    helper("filebeat", "a log shipper"),
    helper("promtail", "a log shipper"),
    helper("vector", "a log shipper"),
    helper("alloy", "a telemetry collector"),
    helper("opentelemetry-collector", "a telemetry collector"),
    helper("opentelemetry-collector-contrib", "a telemetry collector"),
    helper("telegraf", "a metrics agent"),
    helper("statsd-exporter", "a metrics exporter"),
    helper("node-exporter", "a metrics exporter"),
    helper("postgres-exporter", "a metrics exporter"),
    helper("postgres_exporter", "a metrics exporter"),
    helper("redis_exporter", "a metrics exporter"),
    helper("mysqld-exporter", "a metrics exporter"),
    helper("jmx-exporter", "a metrics exporter"),
    helper("agent", "a monitoring agent"),
    helper("git-sync", "a repository synchronizer"),
    helper("k8s-sidecar", "a configuration watcher"),
    helper("configmap-reload", "a configuration watcher"),
];

/// Finds a helper by the reference of its image.
pub fn helper_by_image(image: &str) -> Option<Helper> {
    let name = image_name(image);
    NEVER_ENDING.iter().copied().find(|helper| helper.image_name == name)
}

/// The last part of an image's reference: `gcr.io/a/gce-proxy:1.33@sha256:..` gives `gce-proxy`.
pub fn image_name(image: &str) -> &str {
    let without_digest = image.split('@').next().unwrap_or(image);
    let last = without_digest.rsplit('/').next().unwrap_or(without_digest);
    last.split(':').next().unwrap_or(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_by_the_last_part_of_its_reference() {
        for image in
            ["gcr.io/cloudsql-docker/gce-proxy:1.33.13-alpine", "localhost:5000/gce-proxy", "gce-proxy@sha256:00"]
        {
            assert_eq!(helper_by_image(image).map(|helper| helper.description), Some("a database proxy"), "{image}");
        }
        assert_eq!(helper_by_image("registry.example/gce-proxy/main:1"), None);
    }
}
