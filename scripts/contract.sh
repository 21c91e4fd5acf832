#!/usr/bin/env bash
# Installs the contract checker (schemathesis) into target/contract, unless the required version is there.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

root="${CARGO_TARGET_DIR:-target}/contract"
requirements=tests/contract/requirements.txt
mkdir -p "$root"
exec 9>"$root/fetch.lock"
flock 9

if ! cmp -s -- "$requirements" "$root/requirements.from"; then
  printf 'contract: installing the checker\n' >&2
  rm -rf -- "$root/venv"
  python3 -m venv "$root/venv"
  "$root/venv/bin/pip" install -q --disable-pip-version-check -r "$requirements" >&2
  cp -- "$requirements" "$root/requirements.from"
fi
