//! Random pods.

use serde_json::{Value, json};

/// SplitMix64, as in the engine.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ 0x5DEE_CE66)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Less than `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[usize::try_from(self.below(list.len() as u64)).unwrap()]
    }
}

const POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];
pub(crate) const CODES: [i32; 5] = [0, 1, 3, 42, 143];

/// A random pod spec.
pub(crate) fn spec(random: &mut Random) -> Value {
    let mut init = Vec::new();
    for number in 0..random.below(4) {
        let is_sidecar = random.percent(50);
        init.push(container(random, &format!("i{number}"), is_sidecar, !is_sidecar));
    }
    let mut apps = Vec::new();
    for number in 0..=random.below(3) {
        apps.push(container(random, &format!("a{number}"), false, false));
    }
    let mut spec = json!({
        "restartPolicy": random.pick(&POLICIES),
        "terminationGracePeriodSeconds": random.pick(&[0, 1, 3, 30]),
        "initContainers": init,
        "containers": apps,
    });
    if random.percent(15) {
        spec["activeDeadlineSeconds"] = json!(1 + random.below(60));
    }
    if random.percent(10) {
        spec["hostNetwork"] = json!(true);
    }
    spec
}

fn container(random: &mut Random, name: &str, is_sidecar: bool, is_plain_init: bool) -> Value {
    let mut container = json!({"name": name, "image": format!("image-{}:1", random.below(3))});
    container["imagePullPolicy"] = json!(random.pick(&["Always", "IfNotPresent", "IfNotPresent", "Never"]));
    if is_sidecar {
        container["restartPolicy"] = json!("Always");
    } else if random.percent(25) {
        let policies = if is_plain_init { &POLICIES[1..] } else { &POLICIES[..] };
        container["restartPolicy"] = json!(random.pick(policies));
    }
    if container.get("restartPolicy").is_some() && random.percent(30) {
        container["restartPolicyRules"] = rules(random);
    }
    if !is_plain_init {
        for field in ["startupProbe", "readinessProbe", "livenessProbe"] {
            if random.percent(30) {
                container[field] = probe(random, field);
            }
        }
        container["lifecycle"] = lifecycle(random);
    }
    container
}

fn rules(random: &mut Random) -> Value {
    let action = random.pick(&["Restart", "Restart", "RestartAllContainers"]);
    let operator = random.pick(&["In", "NotIn"]);
    json!([{"action": action, "exitCodes": {"operator": operator, "values": [random.pick(&CODES)]}}])
}

fn probe(random: &mut Random, field: &str) -> Value {
    let mut probe = json!({
        "exec": {"command": ["true"]},
        "periodSeconds": random.pick(&[1, 5, 10]),
        "failureThreshold": 1 + random.below(3),
        "initialDelaySeconds": random.pick(&[0, 0, 4]),
    });
    if field == "readinessProbe" {
        probe["successThreshold"] = json!(1 + random.below(2));
    } else if random.percent(30) {
        probe["terminationGracePeriodSeconds"] = json!(1 + random.below(9));
    }
    probe
}

fn lifecycle(random: &mut Random) -> Value {
    let mut lifecycle = json!({});
    for hook in ["postStart", "preStop"] {
        if random.percent(25) {
            lifecycle[hook] = match random.below(2) {
                0 => json!({"exec": {"command": ["true"]}}),
                _ => json!({"sleep": {"seconds": random.below(6)}}),
            };
        }
    }
    lifecycle
}
