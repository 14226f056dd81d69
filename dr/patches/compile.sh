#!/bin/bash
# Compiles one of DynamoRIO's sources, as CMake says, with the patches of this folder: dynamorio-sys builds what crates.io has of it, and asks for a launcher
# of the compiler (CMAKE_C_COMPILER_LAUNCHER, which .cargo/config.toml sets). Each patch is of one source, and is told by that one's path; README.md says what it is for.
set -euo pipefail
patches=$(dirname "$(readlink -f "$0")")

for argument; do
    [[ $argument == *.c ]] || continue
    candidate=$patches/$(basename "$argument" .c).patch
    if [ -f "$candidate" ] && [[ $argument == */$(sed -n '1s,^--- a/,,p' "$candidate") ]]; then
        source=$argument patch=$candidate
    fi
done
[ -n "${patch:-}" ] || exec "$@"

patched=$PWD/patched-$(basename "$source")
# Make compiles it for two libraries at the same time.
patch --quiet --output="$patched.$$" "$source" "$patch"
mv "$patched.$$" "$patched"
# What it includes lies where it was.
exec "${@/#"$source"/"$patched"}" -iquote "$(dirname "$source")"
