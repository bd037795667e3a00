#!/usr/bin/env bash
# Sets everything up and runs the main job: a Job with a native sidecar, watched live.
set -euo pipefail
cd "$(dirname "$0")/.."
hack/setup.sh
cargo build --release --quiet
monopod=${CARGO_TARGET_DIR:-target}/release/monopod

data_dir=$(mktemp -d)
export MONOPOD_DATA_DIR=$data_dir/data
trap '"$monopod" reset --yes >/dev/null; rm -rf "$data_dir"' EXIT
hack/seed-images.sh "$data_dir/images"
"$monopod" image load "$data_dir/images/proxy.tar"
"$monopod" image load "$data_dir/images/exporter.tar"

# `--pull missing`: the manifest names `cloud-sql-proxy` without a tag, which Kubernetes always pulls.
set -x
"$monopod" run --pull missing examples/export-native.yaml
