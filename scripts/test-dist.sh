#!/bin/bash
# test-dist.sh [RELEASE...]: tries the distribution on Debian releases (by default those with an older, the same, and a newer libc
# than the release it is usually built on): in a chroot of each, installs the package, records and replays programs of that
# release, replays a log that was recorded outside, and outside replays the logs recorded there.
#
# Ubuntu's and Alpine's packages are not on Debian's mirrors. Of Ubuntu, the libc is what matters: 20.04 has Debian 11's, and those of 22.04 and 24.04 are
# between the ones that are tried. Alpine's, musl, is in Debian for programs of one's own, which tests/ tries; its userland is not tried.
#
# Needs root. The chroots stay in $XDG_CACHE_HOME/bugnet-chroots (~/.cache), so that a second run is quick.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- bullseye bookworm trixie
[ "$(id -u)" = 0 ] || { echo "test-dist: chroots need root" >&2; exit 1; }
scripts/install-deps.sh scripts/build-packages.txt scripts/test-dist-packages.txt
cache=${XDG_CACHE_HOME:-$HOME/.cache}/bugnet-chroots
mkdir -p "$cache"

package=$(scripts/deb.sh | tail -n 1 | cut -f 2)
archive=$(ls -t dist/*.tar.gz | head -n 1)
work=$(mktemp -d "${TMPDIR:-/tmp}/bugnet-test-dist.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/unpacked"
cp "$package" "$work/bugnet.deb"
tar -xf "$archive" -C "$work/unpacked" --strip-components=1

# record.sh RELEASE, run here and in each chroot: records a few programs into logs/RELEASE-*, with their real output beside.
cat >"$work/record.sh" <<'END'
set -euo pipefail
cd "$(dirname "$0")"
try() {
    local name=logs/$1
    shift
    "$@" >"$name.real"
    unpacked/bin/bugnet record -o "$name" -- "$@" >"$name.recorded"
    cmp "$name.real" "$name.recorded"
}
mkdir -p logs
try "$1-gzip" gzip -9 -n -c /bin/bash
try "$1-ls" ls -lR /usr/share
try "$1-perl" perl -e 'my %n; $n{$_ % 97} .= "x$_" for 1..5000; print "$_ $n{$_}\n" for grep { /7$/ } sort keys %n'
try "$1-bash" bash -c 's=0; for ((i = 0; i < 2000; i++)); do ((s += i * i % 7)); done; echo $s'
END
# replay.sh, likewise: checks and replays every log in logs.
cat >"$work/replay.sh" <<'END'
set -euo pipefail
cd "$(dirname "$0")"
for log in logs/*/; do
    log=${log%/}
    unpacked/bin/bugnet check "$log"
    unpacked/bin/bugnet replay "$log"
    unpacked/bin/bugnet replay --output=stdout "$log" | cmp - "$log.real"
    echo "$log: replayed, and its output is the real one"
done
END

echo "== Recording here: $(ldd --version | head -n 1)"
bash "$work/record.sh" here
for release; do
    if [ ! -d "$cache/$release" ]; then
        rm -rf "$cache/$release.tmp"
        debootstrap --variant=minbase "$release" "$cache/$release.tmp"
        mv "$cache/$release.tmp" "$cache/$release"
    fi
    # All that is mounted goes away with the namespace.
    unshare --mount --pid --fork bash -euo pipefail -s "$cache/$release" "$work" "$release" <<'END'
mount --bind "$2" "$1/mnt"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
in_chroot() { chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C "${@:2}"; }
echo "== Debian $3: $(in_chroot "$1" ldd --version | head -n 1)"
in_chroot "$1" dpkg --install /mnt/bugnet.deb
# Without gdb, which the package recommends, `debug` alone does not work there.
in_chroot "$1" bugnet doctor || [ $? = 4 ]
in_chroot "$1" bash /mnt/record.sh "$3" </dev/null
in_chroot "$1" bash /mnt/replay.sh </dev/null
END
done
echo "== Replaying here what was recorded everywhere"
bash "$work/replay.sh"
echo "The distribution works here and on: $*"
