#!/bin/bash
# DynamoRIO is built with the patches of dr/patches, which Cargo does not look at: where they have changed since, it is built anew.
set -euo pipefail
: "${CARGO:=cargo}"
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
stamp=$target/dynamorio-patches
patches=$(cat dr/patches/*.patch dr/patches/compile.sh | sha256sum)
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$patches" ]; then
    [ ! -d "$target/release/build" ] || "$CARGO" clean --quiet --release --locked -p dynamorio-sys
    mkdir -p "$target"
    echo "$patches" >"$stamp"
fi
