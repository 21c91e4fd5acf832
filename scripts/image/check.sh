#!/usr/bin/env bash
# Builds the image of docker/Dockerfile, runs it unprivileged with a read-only root, and sends requests to it.
#
# By default the base images are replaced, so that no registry is needed: a Debian made by debootstrap, and the same with
# the Rust toolchain of this machine, passed as the Dockerfile's ARGs. BASES=registry uses the base images that the
# Dockerfile names. Needs root. Storage is kept in .cache/image.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

cache=$(realpath -m .cache/image)
release=bookworm
image=localhost/ebb:check
mkdir -p "$cache"

say() { printf 'image: %s\n' "$*"; }
builder() { buildah --root "$cache/storage" --runroot "$cache/run" --storage-driver overlay "$@"; }
has() { builder images --format '{{.Name}}:{{.Tag}}' | grep -qxF -- "$1"; }

local_library=localhost/local/debian:$release-slim
local_build=localhost/local/rust:$(rustc --version | cut -d ' ' -f 2)-slim-$release

make_library_base() {
  has "$local_library" && return
  say "making $local_library with debootstrap"
  rm -rf -- "$cache/root"
  debootstrap --variant=minbase "$release" "$cache/root" >"$cache/debootstrap.log" 2>&1 ||
    { tail -n 20 "$cache/debootstrap.log" >&2; exit 1; }
  local container
  container=$(builder from scratch)
  tar -C "$cache/root" --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' -c . >"$cache/root.tar"
  builder add -q "$container" "$cache/root.tar" / >/dev/null
  builder config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
  builder commit -q --rm "$container" "$local_library" >/dev/null
  rm -rf -- "$cache/root" "$cache/root.tar"
}

# Only what the build needs: no documentation, sources or other tools.
make_build_base() {
  has "$local_build" && return
  say "making $local_build with the toolchain of this machine"
  local container rust host
  rust=$(rustc --print sysroot)
  host=$(rustc -vV | sed -n 's/^host: //p')
  container=$(builder from "$local_library")
  tar -C "$rust" -c bin/cargo bin/rustc "lib/rustlib/$host/lib" "lib/rustlib/$host/bin" \
    $(cd -- "$rust" && ls lib/*.so*) >"$cache/rust.tar"
  builder add -q "$container" "$cache/rust.tar" /usr/local >/dev/null
  # CA certificates of this machine, for the crate registry.
  builder add -q "$container" /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt >/dev/null
  builder config --env CARGO_HOME=/usr/local/cargo "$container"
  builder commit -q --rm "$container" "$local_build" >/dev/null
  rm -f -- "$cache/rust.tar"
}

bases=()
if [ "${BASES:-local}" = local ]; then
  make_library_base
  make_build_base
  bases=(--pull-never --build-arg "BUILD_BASE=$local_build" --build-arg "LIBRARY_BASE=$local_library")
fi

say "building $image"
began=$SECONDS
builder bud --format docker --isolation chroot --layers "${bases[@]}" \
  --build-arg "VERSION=$(sed -n 's/^version *= *"\(.*\)"$/\1/p' Cargo.toml | head -n 1)" \
  --build-arg "REVISION=$(git rev-parse HEAD 2>/dev/null || echo unknown)" \
  -f docker/Dockerfile -t "$image" . >"$cache/build.log" 2>&1 || { tail -n 40 "$cache/build.log" >&2; exit 1; }
grep '^release:' "$cache/build.log" | tail -n 1 || true
say "built in $((SECONDS - began)) s"

container=$(builder from --pull-never "$image")
root=$(builder mount "$container")
trap 'builder umount "$container" >/dev/null; builder rm "$container" >/dev/null' EXIT
builder inspect --type image "$image" >"$cache/inspect.json"
python3 -B scripts/image/run.py "$cache/inspect.json" "$root"
say "size $(du -sh -- "$root" | cut -f 1) in $(find "$root" -type f | wc -l) files"
