#!/usr/bin/env bash
# Builds stand-ins for the images that the example manifests name, from Debian's busybox-static, bash and curl.
# usage: hack/seed-images.sh OUT_DIR
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/image.sh
out=${1:?usage: hack/seed-images.sh OUT_DIR}

# A proxy that answers as cloud_sql_proxy does: /readiness on the health port, /quitquitquit on the admin port.
cloud_sql_proxy() {
  image_file /cloud_sql_proxy <<'SH'
#!/bin/sh
# Flags of version 1 (-health_check_port=N) and 2 (--http-port=N, --admin-port=N) are understood.
health= admin=
for argument in "$@"; do
  case $argument in
    -health_check_port=*) health=${argument#*=} ;;
    --http-port=*) health=${argument#*=} ;;
    --admin-port=*) admin=${argument#*=} ;;
  esac
done
echo "proxy: ready for connections"
stop() { echo "proxy: $1"; kill $listeners 2>/dev/null; exit 0; }
trap 'stop "got SIGTERM, shutting down"' TERM
trap 'stop "asked to quit, shutting down"' USR1
export PROXY=$$
listeners=
[ -n "$health" ] && { nc -ll -p "$health" -e /bin/answer & listeners="$listeners $!"; }
[ -n "$admin" ] && { nc -ll -p "$admin" -e /bin/answer & listeners="$listeners $!"; }
while :; do sleep 3600 & wait $!; done
SH
  image_file /bin/answer <<'SH'
#!/bin/sh
read -r method path version
while read -r header; do [ "${#header}" -le 1 ] && break; done
printf 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok'
case $path in /quitquitquit*) kill -USR1 "$PROXY" ;; esac
SH
}

image_begin
image_end "$out/busybox.tar" busybox:1.36 '{"Cmd":["sh"]}'

image_begin
image_end "$out/nginx.tar" nginx:alpine '{"Cmd":["sh"]}'

# The exporter: `true`, so that the time of a run is monopod's own.
image_begin
image_end "$out/exporter.tar" exporter:1.0 '{"Cmd":["true"]}'

image_begin
cloud_sql_proxy
image_end "$out/proxy.tar" cloud-sql-proxy:latest '{"Entrypoint":["/cloud_sql_proxy"]}'
for name in gcr.io/cloudsql-docker/gce-proxy:1.33.13 gcr.io/cloudsql-docker/gce-proxy:1.33.13-alpine gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.7.2-alpine; do
  image_begin
  cloud_sql_proxy
  image_end "$out/$(basename "${name//:/-}").tar" "$name" '{"Entrypoint":["/cloud_sql_proxy"]}'
done

image_begin
image_program "$(command -v bash)" /bin/bash
image_program "$(command -v curl)" /usr/bin/curl
image_file /main <<'SH'
#!/bin/sh
echo "main: working"
sleep 2
echo "main: done"
SH
image_end "$out/main.tar" main:latest '{"Cmd":["/main"]}'
