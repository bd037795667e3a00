//! The pod's `/etc/hosts` (L-911).
//!
//! Pure: the text only.

use std::fmt::Write as _;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::HostAlias;

use super::hostname::PodHostname;

/// The file of a pod with its own network.
pub fn pod_hosts(addresses: &[IpAddr], name: &PodHostname, aliases: &[HostAlias]) -> String {
    let mut text = "# Kubernetes-managed hosts file.\n\
                    127.0.0.1\tlocalhost\n\
                    ::1\tlocalhost ip6-localhost ip6-loopback\n\
                    fe00::0\tip6-localnet\n\
                    fe00::0\tip6-mcastprefix\n\
                    fe00::1\tip6-allnodes\n\
                    fe00::2\tip6-allrouters\n"
        .to_owned();
    let hostname = &name.hostname;
    for address in addresses {
        // Writing to a String cannot fail.
        let _ = match &name.domain {
            Some(domain) => writeln!(text, "{address}\t{hostname}.{domain}\t{hostname}"),
            None => writeln!(text, "{address}\t{hostname}"),
        };
    }
    text + &alias_lines(aliases)
}

/// The file of a pod on the node's network: the node's own, and the aliases.
pub fn host_network_hosts(node_hosts: &str, aliases: &[HostAlias]) -> String {
    format!("# Kubernetes-managed hosts file (host network).\n{node_hosts}{}", alias_lines(aliases))
}

fn alias_lines(aliases: &[HostAlias]) -> String {
    if aliases.is_empty() {
        return String::new();
    }
    let lines = aliases.iter().map(|alias| {
        let names = alias.hostnames.as_deref().unwrap_or_default().join("\t");
        format!("{}\t{names}\n", alias.ip)
    });
    std::iter::once("\n# Entries added by HostAliases.\n".to_owned()).chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Result = std::result::Result<(), Box<dyn std::error::Error>>;

    const HEAD: &str = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n\
        fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n";

    fn name(domain: Option<&str>) -> PodHostname {
        PodHostname { hostname: "web".into(), domain: domain.map(str::to_owned), kernel_hostname: "web".into() }
    }

    #[test]
    fn each_address_of_the_pod_has_its_name() -> Result {
        let addresses = ["10.0.0.9".parse()?, "fd00::9".parse()?];
        assert_eq!(pod_hosts(&addresses, &name(None), &[]), format!("{HEAD}10.0.0.9\tweb\nfd00::9\tweb\n"));
        let expected = format!("{HEAD}10.0.0.9\tweb.sub.ns\tweb\nfd00::9\tweb.sub.ns\tweb\n");
        assert_eq!(pod_hosts(&addresses, &name(Some("sub.ns")), &[]), expected);
        Ok(())
    }

    #[test]
    fn aliases_come_last() {
        let hostnames = Some(vec!["a".to_owned(), "b.c".to_owned()]);
        let aliases = [HostAlias { ip: "1.2.3.4".into(), hostnames }, HostAlias { ip: "::5".into(), hostnames: None }];
        let tail = "\n# Entries added by HostAliases.\n1.2.3.4\ta\tb.c\n::5\t\n";
        assert_eq!(pod_hosts(&[], &name(None), &aliases), format!("{HEAD}{tail}"));
        let expected = format!("# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n{tail}");
        assert_eq!(host_network_hosts("127.0.0.1 localhost\n", &aliases), expected);
    }
}
