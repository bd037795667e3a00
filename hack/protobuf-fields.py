#!/usr/bin/env python3
"""Writes the table of protobuf field numbers that the API server decodes request bodies by.

    hack/protobuf-fields.py KUBERNETES > crates/apiserver/src/fields.txt

KUBERNETES is a checkout of kubernetes/kubernetes. Read from its Go types are, for every kind in KINDS and all that they
hold, the JSON name, the number and the type of each field; nothing else is taken over.
The table's form is told in crates/apiserver/src/fields.rs.
"""
import re
import sys
from pathlib import Path

API = ["core", "batch", "coordination", "discovery", "events", "node", "policy", "rbac", "scheduling",
       "authentication", "authorization"]
KINDS = """core.Pod core.ConfigMap core.Secret core.Namespace core.Event core.Node core.ServiceAccount core.Service
core.Endpoints core.PodTemplate core.Binding batch.Job batch.CronJob coordination.Lease discovery.EndpointSlice
events.Event node.RuntimeClass policy.PodDisruptionBudget policy.Eviction scheduling.PriorityClass rbac.Role
rbac.RoleBinding rbac.ClusterRole rbac.ClusterRoleBinding authentication.TokenReview authentication.TokenRequest
authentication.SelfSubjectReview authorization.SubjectAccessReview authorization.SelfSubjectAccessReview
authorization.LocalSubjectAccessReview authorization.SelfSubjectRulesReview meta.DeleteOptions""".split()
SPECIAL = {"metav1.Time": "T", "meta.Time": "T", "metav1.MicroTime": "U", "meta.MicroTime": "U",
           "resource.Quantity": "Q", "intstr.IntOrString": "I", "meta.FieldsV1": "F", "metav1.FieldsV1": "F",
           "runtime.RawExtension": "R"}
SCALAR = {"string": "s", "types.UID": "s", "UID": "s", "[]byte": "b", "bool": "B", "float64": "d",
          "int": "i", "int32": "i", "int64": "i", "uint32": "i", "uint64": "i", "uint8": "i"}
IMPORTS = {"v1": "core", "apiv1": "core", "metav1": "meta", "corev1": "core", "authenticationv1": "authentication"}
FIELD = re.compile(r'^\t(?:(\w+)\s+)?(\S.*?)\s+`json:"([^"]*)"(?:[^`]*?)protobuf:"([^"]*)"')


def read(package, text, structs, aliases):
    name = None
    for line in text.splitlines():
        if match := re.match(r"^type (\w+) struct \{", line):
            name = f"{package}.{match[1]}"
            structs[name] = []
        elif line.startswith("}"):
            name = None
        elif name and not line.lstrip().startswith("//") and (match := FIELD.match(line)):
            structs[name].append((match[2], match[3].split(",")[0], match[4].split(",")[1]))
        elif match := re.match(r"^type (\w+) (=? ?)(\S+)", line):
            aliases[f"{package}.{match[1]}"] = match[3]


def encode(package, kind, structs, aliases, needed):
    if kind in SCALAR:
        return SCALAR[kind]
    if kind in SPECIAL:
        return SPECIAL[kind]
    if kind.startswith("[]"):
        return "*" + encode(package, kind[2:], structs, aliases, needed)
    if match := re.match(r"map\[\S+?\](.+)$", kind):
        return "m" + encode(package, match[1], structs, aliases, needed)
    prefix, _, base = kind.rpartition(".")
    full = f"{IMPORTS.get(prefix, prefix) or package}.{base}"
    if full in SPECIAL:
        return SPECIAL[full]
    if full in structs:
        needed.append(full)
        return full
    if full in aliases:
        target = aliases[full]
        # Lists that have a name are messages with one repeated field.
        return "L" if target == "[]string" else encode(full.split(".")[0], target, structs, aliases, needed)
    raise SystemExit(f"unknown type {kind} in {package}")


def main():
    root = Path(sys.argv[1]) / "staging/src/k8s.io"
    structs, aliases = {}, {}
    for package in API:
        read(package, (root / f"api/{package}/v1/types.go").read_text(), structs, aliases)
    read("meta", (root / "apimachinery/pkg/apis/meta/v1/types.go").read_text(), structs, aliases)
    needed, done = list(KINDS), set()
    while needed:
        name = needed.pop()
        if name in done:
            continue
        done.add(name)
        fields = []
        for kind, json_name, number in structs[name]:
            pointer = kind.startswith("*")
            code = encode(name.split(".")[0], kind.lstrip("*"), structs, aliases, needed)
            if json_name == "":
                code = "^" + code
            elif pointer and code in set(SCALAR.values()):
                code = "?" + code
            fields.append(f"{json_name or '-'}={number}:{code}")
        structs[name] = fields
    for name in sorted(done):
        print(" ".join([name] + structs[name]))


if __name__ == "__main__":
    main()
