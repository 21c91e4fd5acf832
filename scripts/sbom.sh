#!/usr/bin/env bash
# Writes a CycloneDX bill of materials of the binary to target/sbom/ebb.cdx.json.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

out=target/sbom
mkdir -p "$out"
# The tool writes beside the manifest of every crate of the workspace; only the one of the service is kept.
name=ebb.cdx
trap 'rm -f -- "$name.json" crates/*/"$name.json"' EXIT
.cache/tools/bin/cargo-cyclonedx cyclonedx --format json --spec-version 1.5 --no-build-deps --override-filename "$name" -q
mv -- "$name.json" "$out/$name.json"
python3 - "$out/$name.json" <<'PYTHON'
import json, os, sys
# Remove the local path.
text = open(sys.argv[1]).read().replace(f"path+file://{os.getcwd()}", "path+file:///ebb")
open(sys.argv[1], "w").write(text)
bill = json.loads(text)
unlicensed = [one["name"] for one in bill["components"] if not one.get("licenses")]
print(f"sbom: {sys.argv[1]}, CycloneDX {bill['specVersion']}, {len(bill['components'])} components")
sys.exit(f"sbom: without a licence: {unlicensed}" if unlicensed else 0)
PYTHON
