#!/bin/sh
# What the image is made of: Debian's Python and OpenSSH; nodegate with its libraries by pip, for Debian's are older.
set -eu
apt-get update
apt-get install -y --no-install-recommends python3 python3-venv openssh-client
rm -rf /var/lib/apt/lists/*
python3 -m venv /opt/nodegate
/opt/nodegate/bin/pip install --no-cache-dir "$(echo /tmp/nodegate/nodegate-*.whl)[kubernetes,xlsx]"
ln -s /opt/nodegate/bin/nodegate /usr/local/bin/nodegate
groupadd --system --gid 10001 nodegate
useradd --system --uid 10001 --gid 10001 --create-home --home-dir /var/lib/nodegate nodegate
