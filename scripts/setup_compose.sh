#!/bin/sh
# docker-compose for the test of docker-compose.yml: Debian's package, of which only `docker-compose config` is used: no
# Docker daemon is needed. Installs it where this is root and apt is there; exits with 3, saying what to do, where it cannot.
set -eu
there() {
    command -v docker-compose >/dev/null 2>&1
}
if there; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "docker-compose is not installed, and this is no root user of a Debian system: install it." >&2
    exit 3
fi
echo "installing docker-compose with apt-get ..."
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
install() {
    apt-get -o DPkg::Lock::Timeout=120 install -y -qq --no-install-recommends docker-compose
}
if ! install >/dev/null 2>&1; then
    apt-get -o DPkg::Lock::Timeout=120 update -qq >/dev/null
    install >/dev/null
fi
there
