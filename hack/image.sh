# Functions that make container images out of programs of this machine: no registry, no daemon, no network.
# To be sourced. An image is a docker-archive, as `docker save` writes it and `monopod image load` reads it.
#
#   image_begin                      start a root file system with the applets of busybox
#   image_program PROGRAM [AT]       add a program with the shared libraries that it needs
#   image_file AT [MODE] < CONTENT   add a file
#   image_end OUT.tar NAME [CONFIG]  pack it; CONFIG is the image's config as JSON ({"Entrypoint": [...], ...})

image_begin() {
  image_root=$(mktemp -d)
  mkdir -p "$image_root"/{bin,sbin,etc,lib,proc,sys,dev,tmp,root,run,var,usr/bin,usr/sbin}
  chmod 1777 "$image_root/tmp"
  printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n' >"$image_root/etc/passwd"
  printf 'root:x:0:\nnogroup:x:65534:\n' >"$image_root/etc/group"
  cp "$(command -v busybox)" "$image_root/bin/busybox"
  local applet
  for applet in $("$image_root/bin/busybox" --list); do
    [[ -e "$image_root/bin/$applet" ]] || ln -s busybox "$image_root/bin/$applet"
  done
}

image_program() {
  local program=$1 at=${2:-$1} library
  mkdir -p "$image_root$(dirname "$at")"
  rm -f "$image_root$at"
  cp -L "$program" "$image_root$at"
  # ldd prints `name => /path (address)`, or `/path (address)` for the loader.
  { ldd "$program" 2>/dev/null || true; } | grep -o '/[^ )]*' | while read -r library; do
    [[ -e "$image_root$library" ]] && continue
    mkdir -p "$image_root$(dirname "$library")"
    cp -L "$library" "$image_root$library"
  done
}

image_file() {
  local at=$1 mode=${2:-755}
  mkdir -p "$image_root$(dirname "$at")"
  rm -f "$image_root$at"
  cat >"$image_root$at"
  chmod "$mode" "$image_root$at"
}

image_end() {
  local out=$1 name=$2 config=${3:-'{}'} work diff_id architecture
  work=$(mktemp -d)
  case $(uname -m) in
    x86_64) architecture=amd64 ;;
    aarch64) architecture=arm64 ;;
    *) architecture=$(uname -m) ;;
  esac
  # Sorted names and fixed times: the same programs give the same image, byte for byte.
  tar --sort=name --mtime=@0 --numeric-owner --owner=0 --group=0 -C "$image_root" -cf "$work/layer.tar" .
  diff_id=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
  printf '{"architecture":"%s","os":"linux","created":"1970-01-01T00:00:00Z","config":%s,"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$architecture" "$config" "$diff_id" >"$work/config.json"
  printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$name" >"$work/manifest.json"
  mkdir -p "$(dirname "$out")"
  tar -C "$work" -cf "$out.part" manifest.json config.json layer.tar
  mv "$out.part" "$out"
  rm -rf "$work" "$image_root"
}
