#!/usr/bin/env bash
# Installs the missing prerequisites of a build: a C toolchain and libraries for librdkafka, and Rust. An argument adds more:
# kafka (JDK, Maven, Python and openssl for tests on a real broker), python, bench (HTTP load generator), helm (Go, Python,
# bubblewrap and openssl for the chart's tests), image (building and running the image), image-lint (hadolint). Does nothing,
# quickly, if everything is installed.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# The Debian packages whose commands or libraries are missing.
missing_packages() {
  have gcc && have g++ || echo build-essential
  have make || echo make
  have perl || echo perl
  have curl || { echo curl; echo ca-certificates; }
  have pkg-config || { echo pkg-config; echo libssl-dev; echo zlib1g-dev; echo libcurl4-openssl-dev; return; }
  pkg-config --exists openssl || echo libssl-dev
  pkg-config --exists zlib || echo zlib1g-dev
  # Only detected by librdkafka's build: the linked library is built from source.
  pkg-config --exists libcurl || echo libcurl4-openssl-dev
}

missing_python() {
  have python3 && python3 -c 'import ensurepip, venv' 2>/dev/null || { echo python3; echo python3-venv; }
}

# For a real broker and the checker.
missing_kafka_packages() {
  have java || echo default-jdk-headless
  have mvn || echo maven
  have openssl || echo openssl
  missing_python
}

# For building and running an image.
missing_image_packages() {
  have buildah || echo buildah
  have debootstrap || echo debootstrap
  have runc || echo runc
  missing_python
}

# For the HTTP benchmark.
missing_bench_packages() {
  have wrk || echo wrk
  have taskset || echo util-linux
}

# For the chart. Any version of Go is sufficient: it downloads the one that is required.
missing_helm_packages() {
  have go || echo golang-go
  have bwrap || echo bubblewrap
  have openssl || echo openssl
  missing_python
}

# Without a terminal sudo must not prompt for a password.
as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"
  elif ! have sudo; then fail "neither root nor sudo: run as root: $*"
  elif [ -t 0 ]; then sudo "$@"
  else sudo -n "$@"
  fi
}

install_packages() {
  if ! have apt-get; then
    fail "missing packages (Debian names): $*. This script installs packages on Debian and Ubuntu only; install them" \
      "by hand (Fedora: gcc-c++ make perl-core pkgconf openssl-devel zlib-devel libcurl-devel curl;" \
      "macOS: xcode-select --install; brew install pkg-config openssl@3 openjdk maven) and run it again."
  fi
  say "installing packages: $*"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

# Whether cargo runs and has at least the version in Cargo.toml.
rust_suffices() {
  local have_version
  have_version=$(cargo --version 2>/dev/null | awk '{print $2}') || return 1
  [ -n "$have_version" ] && [ "$(printf '%s\n' "$1" "$have_version" | sort -V | head -n 1)" = "$1" ]
}

install_rust() {
  if have rustup; then
    say "installing the stable Rust toolchain (at least $1 is needed)"
    rustup toolchain install stable --profile default --no-self-update
    rustup default stable
  else
    say "installing Rust with rustup (at least $1 is needed)"
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile default --no-modify-path
  fi
  rust_suffices "$1" || fail "cargo is still older than $1: $(command -v cargo || echo 'not found')"
}

install_components() {
  have rustup || fail "rustfmt or clippy is missing; without rustup install them from the source of your cargo"
  say "installing rustfmt and clippy"
  rustup component add rustfmt clippy
}

# No mapfile: the bash of macOS does not have it and must reach the message above.
required_packages() {
  missing_packages
  case ${1:-} in
  kafka) missing_kafka_packages ;;
  python | image-lint) missing_python ;;
  bench) missing_bench_packages ;;
  helm) missing_helm_packages ;;
  image) missing_image_packages ;;
  esac
}
IFS=$'\n' read -r -d '' -a packages < <(required_packages "$@" && printf '\0')
[ "${#packages[@]}" -eq 0 ] || install_packages "${packages[@]}"

required=$(sed -n 's/^rust-version *= *"\(.*\)"$/\1/p' Cargo.toml)
rust_suffices "$required" || install_rust "$required"
{ have cargo-fmt && have cargo-clippy && cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1 || install_components
