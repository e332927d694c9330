#!/bin/sh
# Runs a test program as an unprivileged user: rootless.sh PROGRAM [VARIABLE=PATH...]. It and every
# PATH are copied to where that user can read them; VARIABLE then names the directory of its copies.
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
cp "$1" "$dir/program"
shift
for given in "$@"; do
    variable=${given%%=*}
    mkdir -p "$dir/$variable"
    cp -r "${given#*=}" "$dir/$variable"
    export "$variable=$dir/$variable"
done
chmod -R a+rX "$dir"
mkdir -m 777 "$dir/tmp"
cd "$dir"
TMPDIR=$dir/tmp setpriv --reuid 65534 --regid 65534 --clear-groups "$dir/program"
if [ -n "$(ls -A "$dir/tmp")" ]; then
    echo "Bail out! left behind: $(ls -A "$dir/tmp")"
    exit 1
fi
