#!/usr/bin/env bash
# Installs what the demo and the tests need from Debian, and nothing that is there already.
# Safe to run again and again; prints one line when there is something to do.
set -euo pipefail

# program -> Debian package
declare -A package=(
  [busybox]=busybox-static
  [bash]=bash
  [curl]=curl
  [ip]=iproute2
  [gcc]=gcc
  [/usr/include/stdio.h]=libc6-dev
  [xz]=xz-utils
)
# The tests need more than the demo: a database with its pooler, and a registry.
if [[ "${1:-}" == tests ]]; then
  package[pgbouncer]=pgbouncer
  package[/usr/lib/postgresql]=postgresql
  package[docker-registry]=docker-registry
  package[skopeo]=skopeo
  package[nginx]=nginx-light
fi

missing=()
for program in "${!package[@]}"; do
  [[ -e "$program" ]] || command -v "$program" >/dev/null 2>&1 || missing+=("${package[$program]}")
done
# busybox must be the static one: an image made of it holds no libraries.
if command -v busybox >/dev/null && ldd "$(command -v busybox)" >/dev/null 2>&1; then
  missing+=(busybox-static)
fi
((${#missing[@]})) || exit 0

if ((EUID != 0)); then
  echo "error: these Debian packages are missing: ${missing[*]}" >&2
  echo "hint: run as root, or run: apt-get install ${missing[*]}" >&2
  exit 2
fi
echo "installing from Debian: ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
# Services that packages bring must not be started: the programs run in containers only.
printf '#!/bin/sh\nexit 101\n' >/tmp/monopod-policy-rc.d.$$
if [[ ! -e /usr/sbin/policy-rc.d ]]; then
  install -m 755 /tmp/monopod-policy-rc.d.$$ /usr/sbin/policy-rc.d
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
fi
rm -f /tmp/monopod-policy-rc.d.$$
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
