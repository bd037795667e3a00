#!/usr/bin/env bash
# Sets everything up and passes all checks and tests.
# MONOPOD_PROPERTY_CASES=1000000 makes the random tests of the lifecycle run that many cases.
set -euo pipefail
cd "$(dirname "$0")/.."
hack/setup.sh tests
cargo fmt --all --check
cargo clippy --workspace --all-targets --locked -- -D warnings
RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --locked --quiet
cargo build --workspace --locked
cargo test --workspace --locked --no-fail-fast
