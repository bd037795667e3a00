#!/usr/bin/env bash
# Builds the images of examples/postgres-export.yaml from Debian's postgresql and pgbouncer.
# usage: hack/postgres-images.sh OUT_DIR
set -euo pipefail
cd "$(dirname "$0")/.."
. hack/image.sh
out=${1:?usage: hack/postgres-images.sh OUT_DIR}

# The newest version that is installed.
home=$(ls -d /usr/lib/postgresql/*/ | sort -V | tail -n 1)
home=${home%/}
version=$(basename "$home")

postgres_user() {
  printf 'postgres:x:70:70:postgres:/var/lib/postgresql:/bin/sh\n' >>"$image_root/etc/passwd"
  printf 'postgres:x:70:\n' >>"$image_root/etc/group"
}

image_begin
postgres_user
for program in initdb postgres pg_isready psql pg_ctl; do
  image_program "$home/bin/$program"
done
mkdir -p "$image_root$home/lib" "$image_root/usr/share/postgresql"
# The server loads these at run time, so ldd does not name them.
cp -L "$home"/lib/{plpgsql,dict_snowball}.so "$image_root$home/lib/"
cp -aL "/usr/share/postgresql/$version" "$image_root/usr/share/postgresql/"
mkdir -p "$image_root/usr/share/zoneinfo/Etc"
cp -L /usr/share/zoneinfo/Etc/UTC "$image_root/usr/share/zoneinfo/Etc/UTC"
cp -L /usr/share/zoneinfo/Etc/UTC "$image_root/usr/share/zoneinfo/UTC"
image_file /usr/local/bin/start-postgres <<SH
#!/bin/sh
set -e
export PATH=$home/bin:\$PATH
[ -s "\$PGDATA/PG_VERSION" ] || initdb --auth=trust --username=postgres --encoding=UTF8 --no-sync --no-instructions
exec postgres -c listen_addresses=127.0.0.1 -c unix_socket_directories=/tmp -c fsync=off -c dynamic_shared_memory_type=mmap
SH
image_end "$out/postgres.tar" postgres:local \
  "{\"User\":\"postgres\",\"Cmd\":[\"start-postgres\"],\"StopSignal\":\"SIGINT\",\"Env\":[\"PATH=$home/bin:/usr/local/bin:/usr/bin:/bin\",\"PGDATA=/var/lib/postgresql/data\"]}"

image_begin
postgres_user
image_program "$(command -v pgbouncer || echo /usr/sbin/pgbouncer)" /usr/sbin/pgbouncer
image_end "$out/pgbouncer.tar" pgbouncer:local '{"User":"postgres","Entrypoint":["/usr/sbin/pgbouncer"],"Cmd":["/etc/pgbouncer/pgbouncer.ini"]}'

image_begin
postgres_user
image_program "$home/bin/pg_dump" /usr/bin/pg_dump
image_program "$home/bin/psql" /usr/bin/psql
image_program "$home/bin/pg_isready" /usr/bin/pg_isready
image_end "$out/postgres-client.tar" postgres-client:local '{"User":"postgres","Cmd":["psql"]}'
