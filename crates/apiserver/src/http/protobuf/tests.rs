//! Bodies built by hand, and bodies that are no such thing.

use proptest::prelude::*;
use serde_json::json;

use super::*;

/// A length-delimited field.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(u8::try_from(length & 0x7f).unwrap_or(0) | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap_or(0));
    out.extend_from_slice(bytes);
    out
}

/// A number; fields from 16 on have a tag of two bytes.
fn number(field: u8, value: u8) -> Vec<u8> {
    if field < 16 { vec![field << 3, value] } else { vec![(field & 15) << 3 | 0x80, field >> 4, value] }
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), field(1, &type_meta), field(2, raw)].concat()
}

#[test]
fn a_36_a_config_map_is_read() {
    let metadata = [field(1, b"c"), field(3, b"default"), field(8, b"")].concat();
    let entry = [field(1, b"key"), field(2, b"value")].concat();
    let body = envelope("v1", "ConfigMap", &[field(1, &metadata), field(2, &entry)].concat());
    let expected = json!({"metadata": {"name": "c", "namespace": "default"}, "data": {"key": "value"},
        "apiVersion": "v1", "kind": "ConfigMap"});
    assert_eq!(decode(&body), Ok(expected));
}

#[test]
fn zeros_count_only_behind_pointers() {
    // parallelism (a pointer) and the pod's containers with an empty image and stdin=false.
    let container = [field(1, b"c"), field(2, b""), number(16, 0)].concat();
    let template = field(2, &field(2, &container));
    let spec = [number(1, 0), field(6, &template)].concat();
    let body = envelope("batch/v1", "Job", &field(2, &spec));
    let expected = json!({"spec": {"parallelism": 0, "template": {"spec": {"containers": [{"name": "c"}]}}},
        "apiVersion": "batch/v1", "kind": "Job"});
    assert_eq!(decode(&body), Ok(expected));
}

#[test]
fn inlined_messages_quantities_bytes_and_times_take_their_json_form() {
    let source = field(2, &[]); // emptyDir of VolumeSource
    let volume = [field(1, b"v"), field(2, &source)].concat();
    let quantity = field(1, b"100m");
    let limit = [field(1, b"cpu"), field(2, &quantity)].concat();
    let container = [field(1, b"c"), field(8, &field(1, &limit))].concat();
    let spec = [field(1, &volume), field(2, &container)].concat();
    let created = field(8, &[0x08, 0x80, 0xe2, 0xcf, 0xaa, 0x06]);
    let body = envelope("v1", "Pod", &[field(1, &created), field(2, &spec)].concat());
    let expected = json!({"metadata": {"creationTimestamp": "2023-11-14T22:13:20Z"},
        "spec": {"volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "c", "resources": {"limits": {"cpu": "100m"}}}]},
        "apiVersion": "v1", "kind": "Pod"});
    assert_eq!(decode(&body), Ok(expected));
    let entry = [field(1, b"k"), field(2, &[0xff, 0])].concat();
    let secret = envelope("v1", "Secret", &field(2, &entry));
    assert_eq!(decode(&secret), Ok(json!({"data": {"k": "/wA="}, "apiVersion": "v1", "kind": "Secret"})));
}

#[test]
fn delete_options_are_read_in_every_group() {
    let body = envelope("policy/v1", "DeleteOptions", &[number(1, 0), field(4, b"Background")].concat());
    let expected = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background",
        "apiVersion": "policy/v1", "kind": "DeleteOptions"});
    assert_eq!(decode(&body), Ok(expected));
}

#[test]
fn what_is_no_such_body_is_refused() {
    assert_eq!(decode(b"{}"), Err(ProtobufError::Magic));
    assert_eq!(decode(&envelope("v1", "Pod", &[0x0a, 0x7f])), Err(ProtobufError::Truncated));
    assert_eq!(decode(&envelope("v1", "Pod", &[0x0b])), Err(ProtobufError::Malformed));
    let unknown = ProtobufError::UnknownKind { api_version: "v1".to_owned(), kind: "Nothing".to_owned() };
    assert_eq!(decode(&envelope("v1", "Nothing", &[])), Err(unknown));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(raw in proptest::collection::vec(any::<u8>(), 0..200), kind in "Pod|Job|Secret|Event") {
        let version = if kind == "Job" { "batch/v1" } else { "v1" };
        drop(decode(&envelope(version, &kind, &raw)));
        drop(decode(&raw));
    }
}
