#!/bin/bash
# The demo behind `make demo`: records two programs, takes their files away, replays them from the log alone.
#
#   demo/demo.sh [BUGNET]      BUGNET: the bugnet to use; by default the one that `make build` made
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
fail() { echo "demo: FAILED: $*" >&2; exit 1; }

# Shows a command as a reader would type it (on standard error: standard output is the command's own), then runs it.
run() {
    local shown="bugnet ${*:2}"
    echo "\$ ${shown//$work\//}" >&2
    "$@"
}

# run_quietly FILE COMMAND...: standard output in FILE.out, error in FILE.err, exit status in FILE.status.
# The outer redirection is for the shell's own message about a program that a signal killed.
run_quietly() {
    local to=$1 status=0
    shift
    { "$@" >"$to.out" 2>"$to.err" || status=$?; } 2>/dev/null
    echo "$status" >"$to.status"
}

# The files must be equal, and $3 says what that proves.
same() { cmp "$1" "$2" || fail "$1 and $2 differ"; echo "   same, byte for byte: $3"; }

record() {
    say "1. Record gzip, a program from Debian, as it packs a real file"
    mkdir "$work/files"
    cp "$(command -v gzip)" "$(command -v bash)" "$work/files/"
    "$work/files/gzip" -9 -n -c "$work/files/bash" >"$work/gzip.native"
    run "$bugnet" record -o "$work/gzip.log" -- "$work/files/gzip" -9 -n -c "$work/files/bash" >"$work/gzip.recorded"
    same "$work/gzip.native" "$work/gzip.recorded" "what gzip wrote alone and while recorded"

    say "2. Record a small C program that crashes (demo/stock.c)"
    cp "$here/stock.c" "$here/stock.ini" "$work/files/"
    (cd "$work/files" && "${CC:-cc}" -g -Og -o stock stock.c)
    run_quietly "$work/native" "$work/files/stock" "$work/files/stock.ini"
    echo "\$ bugnet record -o crash.log -- files/stock files/stock.ini"
    run_quietly "$work/recorded" \
        "$bugnet" record --quiet -o "$work/crash.log" -- "$work/files/stock" "$work/files/stock.ini"
    cat "$work/recorded.err" "$work/recorded.out"
    echo "   exit status $(cat "$work/recorded.status") (128 + the signal, from the shell)"
    [ "$(cat "$work/native.status")" = 139 ] || fail "stock should die by SIGSEGV"
    same "$work/native.out" "$work/recorded.out" "standard output, alone and while recorded"
    same "$work/native.err" "$work/recorded.err" "standard error, alone and while recorded"
    same "$work/native.status" "$work/recorded.status" "exit status, alone and while recorded"
}

replay() {
    say "4. Replay gzip: every instruction, on the recorded values, each checkpoint interval checked at its end"
    run "$bugnet" info "$work/gzip.log"
    run "$bugnet" replay "$work/gzip.log"
    run "$bugnet" replay --output "$work/gzip.log" >"$work/gzip.replayed"
    same "$work/gzip.native" "$work/gzip.replayed" "what gzip wrote, recovered by replay, and the real output"

    say "5. Replay the crash"
    run "$bugnet" replay "$work/crash.log"
    run_quietly "$work/replayed" "$bugnet" replay --output "$work/crash.log"
    same "$work/native.out" "$work/replayed.out" "standard output, recovered by replay"
    same "$work/native.err" "$work/replayed.err" "standard error, recovered by replay"

    say "6. What happened: signal, instruction, address, registers, backtrace, last system calls, output"
    run "$bugnet" info "$work/crash.log" | tee "$work/crash.report"
    for wanted in SIGSEGV SEGV_MAPERR 0x65 stock.c: report main 'last system calls' marmalade; do
        grep -q "$wanted" "$work/crash.report" || fail "the report does not mention $wanted"
    done
}

# Runs `replay` where the programs, their source and their input are gone: under a mount namespace that covers their
# folder, or, where such namespaces are not allowed, with the folder deleted.
hide_and_replay() {
    local unshare=(unshare --mount)
    [ "$(id -u)" = 0 ] || unshare+=(--map-root-user)
    if "${unshare[@]}" mount -t tmpfs none "$work/files" 2>/dev/null; then
        say "3. Hide the programs and their files: an empty file system covers their folder"
        "${unshare[@]}" "$0" --hidden "$bugnet" "$work"
        return
    fi
    say "3. Delete the programs and their files (mount namespaces, which would hide them, are not allowed here)"
    rm -r "$work/files"
    show_gone
    replay
}

show_gone() {
    echo "\$ ls files"
    ls "$work/files" 2>&1 || true
    [ -z "$(ls -A "$work/files" 2>/dev/null)" ] || fail "$work/files still holds something"
    echo "   nothing there"
}

if [ "${1:-}" = --hidden ]; then
    bugnet=$2 work=$3
    mount -t tmpfs none "$work/files"
    show_gone
    replay
    exit
fi

bugnet=$(realpath "${1:-$here/../target/release/bugnet}")
[ -x "$bugnet" ] || { echo "demo: $bugnet is not there: run make build first" >&2; exit 1; }
work=$(mktemp -d "${TMPDIR:-/tmp}/bugnet-demo.XXXXXX")
trap 'rm -rf "$work"' EXIT
record
hide_and_replay
say "The demo is through: all that was shown came from the two logs"
