#!/bin/bash
# A gdb that can be an editor's debug adapter, for tests: Debian's is too old for that. PyPI has a newer one, which goes into the target folder.
set -euo pipefail
cd "$(dirname "$0")/.."

version=18.1.0.post1
folder=${CARGO_TARGET_DIR:-target}/gdb
[ "$(cat "$folder/version" 2>/dev/null)" = $version ] && exit 0
echo "Installing: gdb $version from PyPI"
rm -rf "$folder"
python3 -m venv "$folder"
"$folder/bin/pip" install -q --no-deps --disable-pip-version-check "gdb-for-pwndbg==$version"
echo $version >"$folder/version"
