#!/bin/bash
# Makes dist/bugnet_<version>_amd64.deb of what scripts/dist.sh makes: a package for Debian, Ubuntu and their like. It needs no other
# package to record and to replay; gdb is recommended, for `bugnet debug`. Prints the package's name last.
set -euo pipefail
cd "$(dirname "$0")/.."

archive=$(scripts/dist.sh | tail -n 1 | cut -f 2)
name=$(basename "$archive" .tar.gz)
version=${name#bugnet-}
version=${version%-x86_64}
work=$(mktemp -d "${TMPDIR:-/tmp}/bugnet-deb.XXXXXX")
trap 'rm -rf "$work"' EXIT
tar -xf "$archive" -C "$work"
from=$work/$name
to=$work/package
doc=$to/usr/share/doc/bugnet
mkdir -p "$to/DEBIAN" "$to"/usr/{bin,lib} "$to"/usr/share/{man,zsh/vendor-completions} "$doc"
cp "$from/bin/bugnet" "$to/usr/bin/"
cp -r "$from/lib/bugnet" "$to/usr/lib/"
cp -r "$from/share/man/man1" "$to/usr/share/man/"
gzip -9 -n "$to"/usr/share/man/man1/*
cp -r "$from/share/bash-completion" "$from/share/fish" "$to/usr/share/"
cp "$from/share/zsh/site-functions/_bugnet" "$to/usr/share/zsh/vendor-completions/"
cp -r "$from"/*.md "$from/licenses" "$doc/"
cat "$from"/LICENSE-* >"$doc/copyright"
cat >"$to/DEBIAN/control" <<END
Package: bugnet
Version: $version
Architecture: amd64
Maintainer: bugnet
Section: devel
Priority: optional
Installed-Size: $(du -sk "$to/usr" | cut -f 1)
Recommends: gdb (>= 13)
Description: record programs and replay them exactly, backwards, too
 bugnet records an unmodified program where it fails, without privileges,
 performance counters or help of the kernel's, on all cores. The recording
 replays on another machine, without the program's files: in gdb, forwards
 and backwards, and in analyses of memory errors, races and causes.
END
find "$to" -type d -exec chmod 755 {} +
find "$to" -type f -exec chmod go-w {} +
package=dist/bugnet_${version}_amd64.deb
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0) dpkg-deb --root-owner-group --build "$to" "$package" >/dev/null
du -h "$package"
