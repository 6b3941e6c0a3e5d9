#!/bin/sh
# Chromium for the tests that open reports and pages: Debian's package. Installs it where this is root and apt is there;
# exits with 3, saying what to do, where it cannot.
set -eu
if command -v chromium >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "chromium is not installed, and this is no root user of a Debian system: install the package chromium." >&2
    exit 3
fi
echo "installing chromium with apt-get ..."
export DEBIAN_FRONTEND=noninteractive
if ! apt-get install -y -qq --no-install-recommends chromium >/dev/null 2>&1; then
    apt-get update -qq >/dev/null
    apt-get install -y -qq --no-install-recommends chromium >/dev/null
fi
command -v chromium >/dev/null
