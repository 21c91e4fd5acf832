#!/usr/bin/env bash
# Fetches the tools of the chart's tests into .cache/tools: helm (built from its Go module), promtool (extracted from
# Debian's prometheus package, because installing it would start the daemon), the schemas of the Prometheus operator, and
# the Python packages of tests/helm/requirements.txt. Returns quickly if all are present.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."

helm_version=v4.3.1
operator_version=v0.85.0
# The Go version that helm's go.mod requires, and the toolchain to use if the installed Go is older.
go_required=1.26
go_toolchain=go1.26.8

mkdir -p .cache/tools
tools=$PWD/.cache/tools
exec 9>"$tools/fetch.lock"
flock 9

say() { printf 'helm: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
at_least() { [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

# The Go toolchain is a module: Go 1.21 and later fetch it automatically. An older Go, as in Debian 12, can download it, but
# without executable bits and with renamed go.mod files.
use_go() {
  local version module
  version=$(go env GOVERSION); version=${version#go}
  if at_least "$go_required" "$version"; then return; fi
  if at_least 1.21 "$version"; then export GOTOOLCHAIN=$go_toolchain; return; fi
  say "fetching $go_toolchain"
  module=golang.org/toolchain@v0.0.1-$go_toolchain.linux-$(go env GOARCH)
  (cd / && GOMODCACHE="$tools/go" GOFLAGS=-modcacherw go mod download "$module")
  GOROOT="$tools/go/$module"
  find "$GOROOT" -name _go.mod -execdir mv {} go.mod \;
  chmod +x "$GOROOT"/bin/* "$GOROOT"/pkg/tool/*/*
  export GOROOT GOTOOLCHAIN=local PATH="$GOROOT/bin:$PATH"
}

fetch_helm() {
  use_go
  say "building helm $helm_version"
  (cd / && GOBIN="$tools/new" CGO_ENABLED=0 go install -trimpath -ldflags='-s -w' "helm.sh/helm/v4/cmd/helm@$helm_version")
  mv -- "$tools/new/helm" "$tools/helm-$helm_version"
}

fetch_schemas() {
  local sources
  use_go
  say "fetching the schemas of the Prometheus operator $operator_version"
  sources=$(cd / && go mod download -json "github.com/prometheus-operator/prometheus-operator@$operator_version" \
    | sed -n 's/^\t"Dir": "\(.*\)",\?$/\1/p')
  mkdir -p "$tools/new"
  cat -- "$sources"/example/prometheus-operator-crd/monitoring.coreos.com_{servicemonitors,prometheusrules}.yaml \
    >"$tools/new/operator.yaml"
  mv -- "$tools/new/operator.yaml" "$tools/operator-$operator_version.yaml"
}

fetch_promtool() {
  local scratch
  say "extracting promtool from Debian's package prometheus"
  scratch=$(mktemp -d)
  (cd "$scratch" && { apt-get -qq download prometheus || { sudo -n apt-get -qq update || apt-get -qq update; apt-get -qq download prometheus; }; }) \
    || fail "promtool is missing and apt-get cannot download the package prometheus; install promtool and run this again"
  dpkg -x "$scratch"/prometheus_*.deb "$scratch/root"
  mv -- "$scratch/root/usr/bin/promtool" "$tools/promtool"
  rm -rf -- "$scratch"
}

[ -x "$tools/helm-$helm_version" ] || fetch_helm
[ -f "$tools/operator-$operator_version.yaml" ] || fetch_schemas
[ -x "$tools/promtool" ] || { have promtool && ln -sf -- "$(command -v promtool)" "$tools/promtool"; } || fetch_promtool
ln -sfn -- "helm-$helm_version" "$tools/helm"
ln -sfn -- "operator-$operator_version.yaml" "$tools/operator.yaml"

if ! cmp -s -- tests/helm/requirements.txt "$tools/python.from"; then
  say "fetching the Python packages of the chart's tests"
  rm -rf -- "$tools/python"
  python3 -m venv "$tools/python"
  "$tools/python/bin/pip" install -q --disable-pip-version-check -r tests/helm/requirements.txt >&2
  cp -- tests/helm/requirements.txt "$tools/python.from"
fi
