#!/bin/bash
# Installs the Debian packages named in the given files (one a line, # starts a comment) that are missing.
# As root it installs them; otherwise it prints the one command to run and fails. Quick when nothing is missing.
set -euo pipefail

packages=$(cat "$@")
missing=()
while read -r package _; do
    case $package in "" | \#*) continue ;; esac
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done <<<"$packages"
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "This is no Debian system. Install what these Debian packages hold: ${missing[*]}" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    echo "Debian packages are missing. Run this, then make again:" >&2
    echo "    sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
    exit 1
fi
echo "Installing: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -yq --no-install-recommends "${missing[@]}"
