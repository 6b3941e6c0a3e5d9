#!/bin/sh
# Prometheus and promtool for the tests of metrics: Debian's package. Installs it where this is root and apt is there, and
# starts no service; exits with 3, saying what to do, where it cannot.
set -eu
if command -v promtool >/dev/null 2>&1 && command -v prometheus >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "promtool is not installed, and this is no root user of a Debian system: install the package prometheus." >&2
    exit 3
fi
echo "installing prometheus with apt-get ..."
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
if ! apt-get install -y -qq --no-install-recommends prometheus >/dev/null 2>&1; then
    apt-get update -qq >/dev/null
    apt-get install -y -qq --no-install-recommends prometheus >/dev/null
fi
command -v promtool >/dev/null
