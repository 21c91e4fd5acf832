#!/usr/bin/env bash
# Fetches the checker of the API's contract, once, into target/contract; does nothing, quickly, when it is there for what
# the repository asks now.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

root="${CARGO_TARGET_DIR:-target}/contract"
wanted=tests/contract/requirements.txt
mkdir -p "$root"
exec 9>"$root/fetch.lock"
flock 9

if ! cmp -s -- "$wanted" "$root/requirements.from"; then
  printf 'contract: fetching the checker\n' >&2
  rm -rf -- "$root/venv"
  python3 -m venv "$root/venv"
  "$root/venv/bin/pip" install -q --disable-pip-version-check -r "$wanted" >&2
  cp -- "$wanted" "$root/requirements.from"
fi
