#!/bin/sh
# second_debian.sh: the unit tests on Debian 13, whose Python is 3.13. Prints one line, and all the rest if they fail.
# second_debian.sh prepare: only make what they run in.
# second_debian.sh all: `make test-all` there, with the peers of the tests that can be installed.
# second_debian.sh ARGUMENT...: `pytest ARGUMENT...` there.
#
# debootstrap makes the root once, in a cache that outlives this run; the tree is bound into it. Where that cannot be
# done it prints why, and ends with 0.
set -eu
cd "$(dirname "$0")/.."
cache=${NODEPLANE_DEBIAN13:-/var/cache/nodeplane-debian13}
packages=python3,python3-venv,ca-certificates,git,make,procps,openssl,iproute2
skip() { echo "Debian 13: skipped: $*"; exit 0; }

[ "$(id -u)" = 0 ] || skip "only root can make and enter its root"
unshare -m true 2>/dev/null || skip "no mount namespace can be made here"
mkdir -p "$cache" && exec 9>"$cache/lock" && flock 9 || skip "cannot write $cache"
if [ ! -d "$cache/root" ]; then
    command -v debootstrap >/dev/null || skip "debootstrap is not installed"
    rm -rf "$cache/part"
    # In a namespace of its own: beside the /proc that it mounts, tests of a masked one would see that.
    unshare -m debootstrap --variant=minbase --include="$packages" trixie "$cache/part" >"$cache/log" 2>&1 ||
        skip "debootstrap failed: $(tail -n 1 "$cache/log")"
    mv "$cache/part" "$cache/root"
fi

# Network, certificates and package indexes are those of this machine: pip may be configured to find packages in /opt.
ENTER='
root=$1; shift
mount --make-rprivate /
mount --bind "$root" "$root"
for name in proc dev sys; do mount --rbind "/$name" "$root/$name"; done
for name in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs /opt; do
    [ -e "$name" ] || continue
    [ -e "$root$name" ] || if [ -d "$name" ]; then mkdir -p "$root$name"; else : >"$root$name"; fi
    mount --bind "$name" "$root$name"
done
mount -t tmpfs none "$root/tmp"
mkdir -p "$root/nodeplane" "$root/venv" .venv && mount --bind . "$root/nodeplane"
mount --bind "$root/venv" "$root/nodeplane/.venv"
cd "$root"
pivot_root . .  # not chroot: whoever enters a mount namespace comes to its root
umount -l .
cd /nodeplane
exec sh -euc "$INSIDE" sh "$@"
'
enter() { INSIDE=$1; shift; export INSIDE; PYTHONDONTWRITEBYTECODE="" unshare -m sh -euc "$ENTER" sh "$cache/root" "$@"; }

# Compared by content: make looks at the age, and a clone is always newer.
enter 'cmp -s requirements-dev.lock .venv/.ready || {
    find .venv -mindepth 1 -delete
    sh deploy/bootstrap.sh .venv requirements-dev.lock
    cp requirements-dev.lock .venv/.ready
}
touch .venv/.runs .venv/.ready' >"$cache/log" 2>&1 || { sed 's/^/Debian 13: /' "$cache/log"; exit 1; }
[ "${1:-}" = prepare ] && exit 0
[ "${1:-}" = all ] && { enter 'exec make test-all'; exit; }
PYTEST='PATH=$PWD/.venv/bin:$PATH exec .venv/bin/python -m pytest "$@"'
[ $# -gt 0 ] && { enter "$PYTEST" "$@"; exit; }
if enter "$PYTEST" -q -n 2 --dist loadfile --no-loadscope-reorder tests/unit >"$cache/log" 2>&1; then
    echo "Debian 13: the unit tests pass"
else
    sed 's/^/Debian 13: /' "$cache/log"
    exit 1
fi
