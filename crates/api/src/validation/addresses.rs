//! IP addresses and CIDR blocks as Kubernetes' older fields take them.
//!
//! Those fields once allowed leading zeros in IPv4 addresses and IPv4-mapped IPv6 ones; both are refused for new values
//! since 1.36 (StrictIPCIDRValidation), and either gets a warning where it stands already.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What is wrong with an address.
pub(crate) fn ip(value: &str) -> Vec<&'static str> {
    let Some(address) = parse_sloppy(value) else {
        return vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"];
    };
    if value.parse::<IpAddr>().is_err() {
        vec!["must not have leading 0s"]
    } else if is_mapped(address) {
        vec!["must not be an IPv4-mapped IPv6 address"]
    } else {
        Vec::new()
    }
}

/// What is wrong with a CIDR block.
pub(crate) fn cidr(value: &str) -> Vec<&'static str> {
    let Some((address, length)) = parse_cidr_sloppy(value) else {
        return vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"];
    };
    if !is_strict_cidr(value) {
        vec!["must not have leading 0s in IP or prefix length"]
    } else if is_mapped(address) {
        vec!["must not have an IPv4-mapped IPv6 address"]
    } else if mask(address, length) != address {
        vec!["must not have bits set beyond the prefix length"]
    } else {
        Vec::new()
    }
}

/// What an endpoint's or external address must not be.
pub(crate) fn endpoint_ip(value: &str) -> Vec<String> {
    let Some(address) = parse_sloppy(value).map(unmapped) else { return vec!["must be a valid IP address".to_owned()] };
    let mut wrong = Vec::new();
    if address.is_unspecified() {
        wrong.push(format!("may not be unspecified ({value})"));
    }
    if address.is_loopback() {
        wrong.push("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned());
    }
    if is_link_local_unicast(address) {
        wrong.push("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned());
    }
    if is_link_local_multicast(address) {
        wrong.push("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned());
    }
    wrong
}

/// The warning for an address that is not in its usual form, if the path is put before it.
pub(crate) fn ip_warning(value: &str) -> Option<String> {
    let address = parse_sloppy(value)?;
    if value.parse::<IpAddr>().is_err() || is_mapped(address) {
        let plain = unmapped(address);
        return Some(format!("non-standard IP address {value:?} is invalid: use \"{plain}\""));
    }
    let is_usual = address.is_ipv4() || address.to_string() == value;
    (!is_usual).then(|| format!("IPv6 address {value:?} should be in RFC 5952 canonical format (\"{address}\")"))
}

/// The warnings for a CIDR block that is not in its usual form.
pub(crate) fn cidr_warnings(value: &str) -> Vec<String> {
    let Some((address, length)) = parse_cidr_sloppy(value) else { return Vec::new() };
    let masked = mask(address, length);
    let mut warnings = Vec::new();
    if masked != address {
        let whole = if address.is_ipv4() { 32 } else { 128 };
        warnings.push(format!(
            "CIDR value {value:?} is ambiguous in this context (should be \"{masked}/{length}\" or \"{address}/{whole}\"?)"
        ));
    }
    if !is_strict_cidr(value) || is_mapped(address) {
        warnings.push(format!("non-standard CIDR value {value:?} is invalid: use \"{masked}/{length}\""));
    }
    let usual = format!("{address}/{length}");
    if warnings.is_empty() && address.is_ipv6() && usual != value {
        warnings.push(format!("IPv6 CIDR value {value:?} should be in RFC 5952 canonical format (\"{usual}\")"));
    }
    warnings
}

/// Whether a list has one address of each family.
pub(crate) fn is_dual_stack<'a>(values: impl Iterator<Item = &'a str>) -> bool {
    let addresses: Vec<IpAddr> = values.filter_map(parse_sloppy).map(unmapped).collect();
    addresses.iter().any(IpAddr::is_ipv4) && addresses.iter().any(IpAddr::is_ipv6)
}

/// Whether a text is an IPv6 address.
pub(crate) fn is_ipv6(value: &str) -> bool {
    parse_sloppy(value).map(unmapped).is_some_and(|address| address.is_ipv6())
}

/// Reads an address, with leading zeros allowed in decimal parts.
pub(crate) fn parse_sloppy(value: &str) -> Option<IpAddr> {
    if value.contains(':') {
        return match value.rfind(':').and_then(|at| value.split_at_checked(at + 1)) {
            Some((front, back)) if back.contains('.') => {
                let address = parse_v4_sloppy(back)?;
                format!("{front}{address}").parse::<Ipv6Addr>().ok().map(IpAddr::V6)
            }
            _ => value.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        };
    }
    parse_v4_sloppy(value).map(IpAddr::V4)
}

fn parse_v4_sloppy(value: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u8> = value.split('.').map(parse_decimal).collect::<Option<_>>()?;
    <[u8; 4]>::try_from(parts).ok().map(Ipv4Addr::from)
}

/// A number of up to three digits after any number of zeros.
fn parse_decimal(digits: &str) -> Option<u8> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let significant = digits.trim_start_matches('0');
    if significant.is_empty() { Some(0) } else { significant.parse().ok() }
}

fn parse_cidr_sloppy(value: &str) -> Option<(IpAddr, u8)> {
    let (address, length) = value.split_once('/')?;
    let address = parse_sloppy(address)?;
    let length = parse_decimal(length)?;
    let length_max = if address.is_ipv4() { 32 } else { 128 };
    (length <= length_max).then_some((address, length))
}

fn is_strict_cidr(value: &str) -> bool {
    value.split_once('/').is_some_and(|(address, length)| {
        address.parse::<IpAddr>().is_ok() && (length == "0" || !length.starts_with('0'))
    })
}

fn mask(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(it) => {
            let bits = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4((u32::from(it) & bits).into())
        }
        IpAddr::V6(it) => {
            let bits = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6((u128::from(it) & bits).into())
        }
    }
}

fn is_mapped(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(it) if it.to_ipv4_mapped().is_some())
}

fn unmapped(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => it.is_link_local(),
        IpAddr::V6(it) => it.is_unicast_link_local(),
    }
}

fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(it) => it.octets().starts_with(&[224, 0, 0]),
        IpAddr::V6(it) => it.segments().first().is_some_and(|first| first & 0xff0f == 0xff02),
    }
}
