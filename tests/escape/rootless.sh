#!/bin/sh
# Runs a test program as an unprivileged user: rootless.sh PROGRAM. Everything it needs is copied to
# where that user can read it.
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
mkdir "$dir/probes" "$dir/tmp"
cp "$1" "$dir/program"
for probe in "$SG_PROBES"/iso* "$SG_PROBES"/net* "$SG_PROBES"/res*; do
    if [ -f "$probe" ] && [ -x "$probe" ]; then cp "$probe" "$dir/probes"; fi
done
cp -r "$SG_GOLDEN" "$dir/golden"
chmod -R a+rX "$dir"
chmod 777 "$dir/tmp"
cd "$dir"
env SG_PROBES="$dir/probes" SG_GOLDEN="$dir/golden" TMPDIR="$dir/tmp" \
    setpriv --reuid 65534 --regid 65534 --clear-groups "$dir/program"
