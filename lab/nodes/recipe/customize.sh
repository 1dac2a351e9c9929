#!/bin/sh
# Makes a GPU node of a fresh Debian tree; mmdebstrap runs it as its last step with the tree's path.
set -eu
root=$1
for user in ops plain; do # the login with sudo, and the one without
    chroot "$root" useradd --create-home --shell /bin/bash "$user"
done
cp -r "$(dirname "$0")/root/." "$root/"
chmod 440 "$root/etc/sudoers.d/ops"
chmod 755 "$root"/usr/bin/nv* "$root/usr/bin/chronyc" "$root/usr/local/sbin/node-hardware"
rm -f "$root"/etc/ssh/ssh_host_* # each node gets its own
: >"$root/etc/machine-id"
units=$root/etc/systemd/system
for unit in node-hardware nvidia-fabricmanager nvidia-persistenced; do
    ln -sf "../$unit.service" "$units/multi-user.target.wants/$unit.service"
done
# What a node of the tests has no use for, and what would wait for hardware.
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
    fstrim.timer console-getty.service getty-static.service getty@tty1.service systemd-networkd.service \
    systemd-timesyncd.service systemd-binfmt.service systemd-hwdb-update.service systemd-update-utmp.service \
    systemd-journal-catalog-update.service ldconfig.service systemd-pstore.service; do
    ln -sf /dev/null "$units/$unit"
done
