#!/bin/sh
# The kill switch of the gateway beside it: sh switch.sh off|on (the drill says which in SPECLOAD_SWITCH).
# The new upstream is put in place whole, checked, and taken back where nginx refuses it.
set -eu
cd "$(dirname "$0")"
case "${1:-${SPECLOAD_SWITCH:-}}" in
    off) wanted=fallback.conf ;;
    on) wanted=speculating.conf ;;
    *) echo "usage: switch.sh off|on" >&2; exit 2 ;;
esac
cp upstream.conf upstream.before
cp "$wanted" upstream.next
mv upstream.next upstream.conf
if ! nginx -p "$PWD" -c nginx.conf -t -q; then
    mv upstream.before upstream.conf
    exit 1
fi
nginx -p "$PWD" -c nginx.conf -s reload
echo "upstream is $wanted"
