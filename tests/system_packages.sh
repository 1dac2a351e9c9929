#!/bin/sh
# Installs the Debian packages that the tests start for real, where they are missing and we may.
#   tests/system_packages.sh          what `make test` needs
#   tests/system_packages.sh lab      what `make lab` needs
set -eu
wanted="gcc iproute2 libc6-dev mmdebstrap openssh-client openssh-server pciutils sudo systemd-container xz-utils"
case ${1:-tests} in
tests) # a browser with a Chinese font, metrics servers and an exporter, the login shells of users
    wanted="$wanted chromium fish fonts-wqy-zenhei prometheus prometheus-alertmanager prometheus-node-exporter tcsh victoria-metrics zsh" ;;
lab) wanted="$wanted buildah busybox-static cpio e2fsprogs procps zstd" ;;
*) wanted="$*" ;;
esac
missing=""
for package in $wanted; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "install ok installed" || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" != 0 ]; then
    echo "the tests need these packages: apt-get install$missing" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt() { apt-get -qq -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300 "$@"; }
apt update
# shellcheck disable=SC2086  # a list of words
apt install -y --no-install-recommends $missing >/dev/null
