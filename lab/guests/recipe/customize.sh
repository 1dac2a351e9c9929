#!/bin/sh
# Makes a guest of a fresh Debian tree; mmdebstrap runs it as its last step with the tree's path.
# Leaves in /lab what QEMU boots: vmlinuz and initrd.img. Only modules that a guest can use are kept.
set -eu
root=$1
recipe=$(dirname "$0")
wanted="virtio_pci virtio_blk virtio_net virtio_console virtio_rng ext4 overlay rdma_rxe crc32_generic ib_uverbs rdma_ucm ib_umad
    e1000 aer_inject sch_tbf sch_netem"
first="virtio_pci virtio_blk ext4" # what finds the root disk

# The kernel without its package's hooks: an initramfs of Debian's own costs minutes under emulation.
kernel=$(chroot "$root" apt-cache depends linux-image-amd64 | awk '/Depends: linux-image/ {print $2; exit}')
mkdir -p "$root/lab/kernel/lib"
chroot "$root" sh -ec "cd /lab && apt-get download -qq $kernel && dpkg-deb -x linux-image-*.deb kernel"
[ -d "$root/lab/kernel/usr/lib/modules" ] && mv "$root/lab/kernel/usr/lib/modules" "$root/lab/kernel/lib/"
tree=$root/lab/kernel/lib/modules
release=$(ls "$tree")
mv "$root/lab/kernel/boot/vmlinuz-$release" "$root/lab/vmlinuz"
chroot "$root" depmod --basedir /lab/kernel "$release"
depends() { # the files of a module and of all that it needs, below lib/modules
    chroot "$root" modprobe --dirname /lab/kernel --set-version "$release" --show-depends "$1" |
        sed -n 's|^insmod /lab/kernel/lib/modules/\([^ ]*\).*|\1|p'
}
mkdir -p "$root/usr/lib/modules/$release"
cp "$tree/$release"/modules.builtin* "$tree/$release/modules.order" "$root/usr/lib/modules/$release/"
for module in $wanted; do
    depends "$module" | while read -r file; do
        mkdir -p "$root/usr/lib/modules/$(dirname "$file")"
        cp "$tree/$file" "$root/usr/lib/modules/$file"
    done
done

# An initramfs of busybox and the modules of the root disk, in their order.
early=$root/lab/early
mkdir -p "$early/bin" "$early/m" "$early/proc" "$early/dev" "$early/new"
cp /bin/busybox "$early/bin/busybox"
cp "$recipe/init" "$early/init"
for module in $first; do
    depends "$module" | while read -r file; do
        name=$(basename "${file%.xz}")
        grep -qx "$name" "$early/order" 2>/dev/null && continue
        case $file in *.xz) xz -dc "$tree/$file" >"$early/m/$name" ;; *) cp "$tree/$file" "$early/m/$name" ;; esac
        echo "$name" >>"$early/order"
    done
done
(cd "$early" && find . | cpio --quiet -o -H newc | zstd -q -1 -f -o "$root/lab/initrd.img")
rm -rf "$root/lab/kernel" "$early" "$root"/lab/*.deb "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*
chroot "$root" depmod "$release"

cp -r "$recipe/root/." "$root/"
chmod 755 "$root"/usr/local/sbin/lab-*
for device in rxe0 rxe1; do
    rows=$root/lab/infiniband/$device/ports/1/gids
    mkdir -p "$rows"
    for row in $(seq 16 1023); do
        mknod "$rows/$row" c 0 0 # to overlayfs: not there
    done
done
chroot "$root" useradd --create-home --shell /bin/bash ops
chmod 440 "$root/etc/sudoers.d/ops"
rm -f "$root"/etc/ssh/ssh_host_* && ssh-keygen -q -t ed25519 -N '' -C lab -f "$root/etc/ssh/ssh_host_ed25519_key"
ssh-keygen -q -t ed25519 -N '' -C lab -f "$root/lab/user_key"
for home in root home/ops; do
    install -d -m 700 "$root/$home/.ssh"
    install -m 600 "$root/lab/user_key.pub" "$root/$home/.ssh/authorized_keys"
done
chroot "$root" chown -R ops: /home/ops/.ssh
cp "$root/etc/ssh/ssh_host_ed25519_key.pub" "$root/lab/host_key.pub"
chroot "$root" dpkg-query -W >"$root/lab/packages.txt"
echo '/dev/vda / ext4 rw,noatime 0 1' >"$root/etc/fstab"
echo guest >"$root/etc/hostname"
tr -d - </proc/sys/kernel/random/uuid >"$root/etc/machine-id"
sed -i '/pam_systemd.so/d' "$root"/etc/pam.d/common-session* # no session scope for each login: logins are faster
rm -f "$root"/etc/update-motd.d/* # nobody reads it, and a program makes it at each login
chroot "$root" usermod --shell /bin/sh root # starts faster than bash, which ops has
find "$root/etc/libibverbs.d" -name '*.driver' ! -name 'rxe*' -delete # perftest would load each of them
units=$root/etc/systemd/system
mkdir -p "$units/multi-user.target.wants" "$root/etc/systemd/system-generators"
ln -sf ../lab-agent.service "$units/multi-user.target.wants/lab-agent.service"
ln -sf /dev/null "$root/etc/systemd/system-generators/systemd-ssh-generator" # would look for vsock
# What a guest has no use for, and what would cost seconds at every boot.
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
    fstrim.timer logrotate.timer getty@tty1.service serial-getty@ttyS0.service console-getty.service \
    getty-static.service systemd-timesyncd.service systemd-networkd.service systemd-networkd.socket \
    systemd-networkd-wait-online.service systemd-pstore.service systemd-binfmt.service systemd-hwdb-update.service \
    systemd-journal-catalog-update.service systemd-update-utmp.service systemd-update-done.service ldconfig.service \
    systemd-tpm2-setup.service systemd-tpm2-setup-early.service systemd-rfkill.socket iwpmd.service rdma-ndd.service \
    proc-sys-fs-binfmt_misc.automount dev-hugepages.mount sys-kernel-debug.mount sys-kernel-tracing.mount; do
    ln -sf /dev/null "$units/$unit"
done
