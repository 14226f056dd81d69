#!/bin/bash
# Makes dist/bugnet-<version>-x86_64.tar.gz: one folder that runs from wherever it is unpacked, on Debian releases older
# and newer than this one. Prints the archive's name last.
#
# The command line is linked statically. The two clients are libraries that DynamoRIO's own loader loads together with
# the libc that it finds; the loader does not compare symbol versions (scripts/test-dist.sh tries both on other
# releases). libdynamorio.so, replay-host and bugnet-capture need no library at all.
set -euo pipefail
: "${CARGO:=cargo}"
cd "$(dirname "$0")/.."

version=$($CARGO pkgid -p bugnet | sed 's/.*[@#]//')
name=bugnet-$version-x86_64
built=target/release

# cargo tells where dynamorio-sys put what it built.
messages=$($CARGO build --release --locked --message-format=json \
    -p bugnet-logger -p bugnet-replayer -p bugnet-replay-host -p bugnet-capture -p bugnet-dr)
dynamorio=$(sed -n '/"reason":"build-script-executed"/s/.*dynamorio-sys@.*"out_dir":"\([^"]*\)".*/\1/p' <<<"$messages")
[ -d "$dynamorio/build" ] || { echo "dist: cargo does not say where DynamoRIO was built" >&2; exit 1; }
$CARGO rustc --release --locked -p bugnet --bin bugnet -- -C target-feature=+crt-static -C strip=symbols

rm -rf "dist/$name"
mkdir -p "dist/$name"/{bin,lib/bugnet,licenses,share}
cp "$built/bugnet" "dist/$name/bin/"
cp "$built"/libbugnet_{logger,replayer}.so "$built/replay-host" "$built/bugnet-capture" "$dynamorio/build/lib64/release/libdynamorio.so" \
    "dist/$name/lib/bugnet/"
strip --strip-unneeded "dist/$name/lib/bugnet"/*
cp FORMAT.md LICENSE-MIT LICENSE-APACHE "dist/$name/"
sed "s/VERSION/$version/" scripts/dist-README.md >"dist/$name/README.md"
# What whoever uses it has to know of the whole book: these of its chapters.
{
    printf '# Exit statuses and limits of bugnet %s\n\n' "$version"
    sed 's/^# /## /' docs/src/exit-status.md
    echo
    sed 's/^# /## /' docs/src/limits.md
} >"dist/$name/LIMITS.md"

# Man pages and completions, where shells and `man` look for them below the folder that bin/ lies in.
pages=$(mktemp -d "${TMPDIR:-/tmp}/bugnet-dist.XXXXXX")
trap 'rm -rf "$pages"' EXIT
"dist/$name/bin/bugnet" generate "$pages"
share=dist/$name/share
mkdir -p "$share"/{bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
cp -r "$pages/man" "$share/"
cp "$pages/completions/bugnet.bash" "$share/bash-completion/completions/bugnet"
cp "$pages/completions/_bugnet" "$share/zsh/site-functions/"
cp "$pages/completions/bugnet.fish" "$share/fish/vendor_completions.d/"
scripts/collect-licenses.sh "dist/$name/licenses"

# The same tree gives the same archive: names sorted, times those of the last commit.
tar --create --directory dist --sort=name --owner=0 --group=0 --numeric-owner \
    --mtime="@$(git log -1 --format=%ct 2>/dev/null || echo 0)" "$name" | gzip -9 -n >"dist/$name.tar.gz.tmp"
mv "dist/$name.tar.gz.tmp" "dist/$name.tar.gz"
rm -rf "dist/$name"
du -h "dist/$name.tar.gz"
