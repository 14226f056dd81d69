#!/bin/bash
# All tests of `make test`; arguments are options of `cargo nextest run`. Everything is built in the release profile, for two reasons: the
# recorded programs run at a user's speed, and DynamoRIO, which takes longest to build, is built once.
set -euo pipefail
# Tests send signals to programs that inherit what this script inherits; in the background, that is SIGINT ignored.
if [ -z "${BUGNET_SIGNALS_RESET:-}" ]; then
    export BUGNET_SIGNALS_RESET=1
    exec env --default-signal "$0" "$@"
fi
: "${CARGO:=cargo}"
cd "$(dirname "$0")/.."

PATH=$PATH:${CARGO_TARGET_DIR:-target}/nextest/bin
# Tests wait for a good part of their time: for what they have started, and for signals and sleeps of programs.
export NEXTEST_TEST_THREADS=${NEXTEST_TEST_THREADS:-$((($(nproc) * 3 + 1) / 2))}

times=()
step() {
    local start=$SECONDS
    printf '\n== %s\n' "$*"
    "$@"
    times+=("$(printf '%5d s  %s' $((SECONDS - start)) "$*")")
}

step "$CARGO" fmt --all --check
# All at once: what is built of a crate depends on what is built with it. The clients and the command line are here what `make build` has made.
step "$CARGO" build --workspace --all-targets --release --locked
step "$CARGO" nextest run --workspace --release --locked "$@"
step "$CARGO" clippy --workspace --all-targets --release --locked -- -D warnings
RUSTDOCFLAGS="-D warnings" step "$CARGO" doc --workspace --no-deps --document-private-items --release --locked

printf '\nAll tests passed. It took\n'
printf '%s\n' "${times[@]}"
printf '%5d s  in all\n' "$SECONDS"
