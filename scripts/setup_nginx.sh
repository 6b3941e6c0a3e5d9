#!/bin/sh
# nginx for the tests of the kill-switch drill: Debian's package. Installs it where this is root and apt is there; exits with
# 3, saying what to do, where it cannot. Its service is not started: the tests start their own.
set -eu
there() {
    command -v nginx >/dev/null 2>&1
}
if there; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "nginx is not installed, and this is no root user of a Debian system: install it." >&2
    exit 3
fi
echo "installing nginx with apt-get ..."
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
install() {
    apt-get -o DPkg::Lock::Timeout=120 install -y -qq --no-install-recommends nginx-light
}
if ! install >/dev/null 2>&1; then
    apt-get -o DPkg::Lock::Timeout=120 update -qq >/dev/null
    install >/dev/null
fi
there
