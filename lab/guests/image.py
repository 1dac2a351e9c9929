"""A guest's root disk and kernel, built from Debian's packages once and kept in the cache.

What is in it stands in lab/guests/recipe/; a change there, of the suite or of the packages builds another.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from lab import cache, debian

RECIPE = Path(__file__).parent / "recipe"
PACKAGES = (
    "ethtool,ibverbs-providers,ibverbs-utils,infiniband-diags,iproute2,iputils-ping,kmod,openssh-server,passwd,pciutils"
    ",perftest,procps,python3,rdma-core,rdmacm-utils,sudo,systemd,systemd-sysv,udev"
)
SUITES = ("trixie", "bookworm")  # perftest 25.01 on Linux 6.12, and 4.5 on Linux 6.1
FILES = ("vmlinuz", "initrd.img", "user_key", "host_key.pub", "packages.txt")  # what customize.sh leaves in /lab
DISK_MIB = 2048


@dataclass(frozen=True)
class Image:
    """What QEMU boots."""

    folder: Path

    @property
    def disk(self) -> Path:
        """The root file system, raw."""
        return self.folder / "disk.img"

    @property
    def kernel(self) -> Path:
        """Debian's kernel."""
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """An initramfs that finds the disk."""
        return self.folder / "initrd.img"

    @property
    def user_key(self) -> Path:
        """The private key that logs in as root and as ops."""
        return self.folder / "user_key"

    @property
    def host_key(self) -> str:
        """The public host key of every guest."""
        return " ".join((self.folder / "host_key.pub").read_text().split()[:2])


def image(suite: str = SUITES[0]) -> Image:
    """The image of a Debian release, built where the cache has none.

    Raises:
        RuntimeError: this machine has no mirror, or the build failed.
    """
    key = debian.recipe_key(RECIPE, suite, PACKAGES, DISK_MIB)
    return Image(cache.kept(f"image-{suite}", key, lambda folder: _build(suite, folder)))


def _build(suite: str, folder: Path) -> None:
    folder.mkdir(mode=0o700)
    tree = folder / "tree"
    debian.build(suite, tree, PACKAGES, RECIPE, "--skip=cleanup/apt")
    for name in FILES:
        (tree / "lab" / name).rename(folder / name)
    with (folder / "disk.img").open("wb") as disk:
        disk.truncate(DISK_MIB << 20)
    options = ["-O", "^metadata_csum,^has_journal", "-L", "labroot", "-d", str(tree)]
    debian.run(["mke2fs", "-q", "-t", "ext4", *options, str(folder / "disk.img")])
    shutil.rmtree(tree)
