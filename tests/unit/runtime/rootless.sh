#!/bin/sh
# Runs a test of kernels as an unprivileged user: rootless.sh PROGRAM KERNEL GOLDEN.
set -eu
if [ "$(id -u)" != 0 ]; then
    echo "1..0 # SKIP not root: the ordinary run is the unprivileged one"
    exit 0
fi
if ! command -v setpriv >/dev/null; then
    echo "1..0 # SKIP no setpriv to become another user with"
    exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/kernels" "$dir/tmp"
cp "$1" "$dir/program"
cp "$2" "$dir/kernels"
cp "$3" "$dir"
chmod -R a+rX "$dir"
chmod 777 "$dir/tmp"
cd "$dir"
env SG_KERNELS_COPY="$dir/kernels" SG_GOLDEN_COPY="$dir" TMPDIR="$dir/tmp" \
    setpriv --reuid 65534 --regid 65534 --clear-groups "$dir/program"
