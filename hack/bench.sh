#!/usr/bin/env bash
# Times the native-sidecar Job: whole runs of the command, fastest and median of N (default 10).
set -euo pipefail
cd "$(dirname "$0")/.."
count=${1:-10}
hack/setup.sh
cargo build --release --quiet
monopod=${CARGO_TARGET_DIR:-target}/release/monopod
data_dir=$(mktemp -d)
export MONOPOD_DATA_DIR=$data_dir/data
trap '"$monopod" reset --yes >/dev/null; rm -rf "$data_dir"' EXIT
hack/seed-images.sh "$data_dir/images"
"$monopod" image load "$data_dir/images/proxy.tar" >/dev/null
"$monopod" image load "$data_dir/images/exporter.tar" >/dev/null
for _ in $(seq "$count"); do
  start=$(date +%s%N)
  "$monopod" run --quiet --pull missing examples/export-native.yaml >/dev/null
  echo $((($(date +%s%N) - start) / 1000000))
done | sort -n | awk '{ t[NR] = $1 } END { printf "native-sidecar Job: fastest %d ms, median %d ms of %d runs\n", t[1], t[int((NR + 1) / 2)], NR }'
