#!/bin/bash
# collect-licenses.sh FOLDER: writes there the licence texts of all that a distribution includes: the crates that are
# linked into it, DynamoRIO (with what that includes), and glibc, which the command line is linked with statically.
set -euo pipefail
: "${CARGO:=cargo}"
to=$1
cd "$(dirname "$0")/.."

# One line a crate: NAME VERSION LICENCE. Crates of this workspace have a path behind the version; build and
# development dependencies and procedural macros are not part of what is distributed.
crates=$($CARGO tree --locked --edges normal --target x86_64-unknown-linux-gnu --prefix none --format '{p}|{l}' \
    -p bugnet -p bugnet-logger -p bugnet-replayer -p bugnet-replay-host -p bugnet-capture |
    sed 's/ (\*)//' | grep -v -e '^$' -e '(/' -e '(proc-macro)' | sed 's/ v\([^ |]*\)|/ \1 /' | sort -u)
registry=$(echo "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/)

printf 'What this distribution includes, and under which licences. Their texts are in this folder.\n\n' >"$to/README"
while read -r name version licence; do
    printf '%s %s: %s\n' "$name" "$version" "$licence" >>"$to/README"
    source=
    for folder in $registry; do
        [ ! -d "$folder/$name-$version" ] || source=$folder/$name-$version
    done
    [ -n "$source" ] || { echo "collect-licenses: no source of $name $version in $registry" >&2; exit 1; }
    find "$source" -maxdepth 2 -type f \
        \( -iname 'licen[sc]e*' -o -iname 'copying*' -o -iname 'copyright*' -o -iname 'notice*' \) -print0 |
        while read -r -d '' text; do
            cp "$text" "$to/$name-$(tr / - <<<"${text#"$source/"}")"
        done
    if ! compgen -G "$to/$name-*" >/dev/null; then
        repository=$(sed -n 's/^repository = "\(.*\)"/\1/p' "$source/Cargo.toml")
        printf '    (the crate comes without a text of its own; its source: %s)\n' "$repository" >>"$to/README"
    fi
    if [ "$name" = dynamorio-sys ]; then
        cp "$source/dynamorio/License.txt" "$to/DynamoRIO-License.txt"
        printf 'DynamoRIO, as in dynamorio-sys %s: BSD-3-Clause; see DynamoRIO-License.txt\n' "$version" >>"$to/README"
    fi
done <<<"$crates"

echo "Rust's standard library: MIT OR Apache-2.0; see https://www.rust-lang.org/policies/licenses" >>"$to/README"
glibc=$(dpkg-query -W -f '${Version}' libc6-dev)
cp /usr/share/doc/libc6-dev/copyright "$to/glibc-copyright"
cp /usr/share/common-licenses/LGPL-2.1 "$to/LGPL-2.1"
cat >>"$to/README" <<END
glibc $glibc, from Debian, linked statically into bin/bugnet: LGPL-2.1-or-later; its source is at
https://sources.debian.org/src/glibc/$glibc/, and \`make dist\` in bugnet's source links it anew.
END
