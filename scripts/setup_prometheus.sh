#!/bin/sh
# Prometheus and Alertmanager for the tests of rules and metrics: Debian's packages. Installs them where this is root and
# apt is there; exits with 3, saying what to do, where it cannot. Their services are not started: the tests start their own.
set -eu
there() {
    for program in prometheus promtool prometheus-alertmanager amtool; do
        command -v "$program" >/dev/null 2>&1 || return 1
    done
}
if there; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "prometheus or prometheus-alertmanager is not installed, and this is no root user of a Debian system: install both." >&2
    exit 3
fi
echo "installing prometheus and prometheus-alertmanager with apt-get ..."
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
install() {
    apt-get -o DPkg::Lock::Timeout=120 install -y -qq --no-install-recommends prometheus prometheus-alertmanager
}
if ! install >/dev/null 2>&1; then
    apt-get -o DPkg::Lock::Timeout=120 update -qq >/dev/null
    install >/dev/null
fi
there
