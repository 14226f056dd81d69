#!/bin/bash
# Checks licences and sources of all that is linked (deny.toml), and, where the database can be fetched, advisories. cargo-deny is built the
# first time, into target/tools.
set -euo pipefail
: "${CARGO:=cargo}"
cd "$(dirname "$0")/.."

version=0.20.2
deny=target/tools/bin/cargo-deny
[ "$("$deny" --version 2>/dev/null)" = "cargo-deny $version" ] || "$CARGO" install --locked --root target/tools --version "$version" cargo-deny
"$deny" --locked check bans licenses sources
if "$deny" --locked fetch db 2>/dev/null; then
    "$deny" --locked check advisories
else
    echo "The database of advisories cannot be fetched from here: not checked." >&2
fi
