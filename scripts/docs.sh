#!/bin/bash
# Makes the book of docs/ into pages for a browser, in target/book. mdBook is built the first time, into target/tools.
set -euo pipefail
: "${CARGO:=cargo}"
cd "$(dirname "$0")/.."

version=0.4.52
mdbook=target/tools/bin/mdbook
[ "$("$mdbook" --version 2>/dev/null)" = "mdbook v$version" ] || "$CARGO" install --locked --root target/tools --version "$version" mdbook
"$mdbook" build docs
echo "The book: target/book/index.html"
