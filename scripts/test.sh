#!/bin/bash
# All tests of `make test`, one after the other. Everything is built in the release profile, for two reasons: the
# recorded programs run at a user's speed, and DynamoRIO, which takes longest to build, is built once.
set -euo pipefail
# Tests send signals to programs that inherit what this script inherits; in the background, that is SIGINT ignored.
if [ -z "${BUGNET_SIGNALS_RESET:-}" ]; then
    export BUGNET_SIGNALS_RESET=1
    exec env --default-signal "$0" "$@"
fi
: "${CARGO:=cargo}"
cd "$(dirname "$0")/.."

step() {
    local start=$SECONDS
    printf '\n== %s\n' "$*"
    "$@"
    echo "== done in $((SECONDS - start)) s"
}

step "$CARGO" fmt --all --check
step "$CARGO" clippy --workspace --all-targets --release --locked -- -D warnings
RUSTDOCFLAGS="-D warnings" step "$CARGO" doc --workspace --no-deps --document-private-items --release --locked
# All at once: what is built of a crate depends on what is built with it, and each other choice would build most of it once more.
step "$CARGO" build --workspace --all-targets --release --locked
step "$CARGO" test --workspace --release --locked
printf '\nAll tests passed in %d s.\n' "$SECONDS"
