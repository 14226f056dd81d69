#!/bin/bash
# What runs the tests, if it is not there: cargo-nextest, from crates.io. That takes some minutes, once.
set -euo pipefail
: "${CARGO:=cargo}"
cd "$(dirname "$0")/.."

command -v cargo-nextest >/dev/null && exit 0
folder=${CARGO_TARGET_DIR:-target}/nextest
[ -x "$folder/bin/cargo-nextest" ] || "$CARGO" install --locked --root "$folder" cargo-nextest
