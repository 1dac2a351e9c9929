"""A guest's root disk and kernel, built from Debian's packages once and kept in the cache.

What is in it stands in lab/recipe/; a change there, of the suite or of the packages builds another.
"""

from __future__ import annotations

import fcntl
import hashlib
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab import cache

RECIPE = Path(__file__).parent / "recipe"
PACKAGES = (
    "ethtool,ibverbs-providers,ibverbs-utils,infiniband-diags,iproute2,iputils-ping,kmod,openssh-server,passwd,pciutils"
    ",perftest,procps,python3,rdma-core,rdmacm-utils,sudo,systemd,systemd-sysv,udev"
)
SUITES = ("trixie", "bookworm")  # perftest 25.01 on Linux 6.12, and 4.5 on Linux 6.1
FILES = ("vmlinuz", "initrd.img", "user_key", "host_key.pub", "packages.txt")  # what customize.sh leaves in /lab
DISK_SIZE = "2G"
BUILD_LIMIT_S = 1200
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/man/*")


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
    cache.FOLDER.mkdir(parents=True, exist_ok=True)
    built = cache.FOLDER / f"image-{suite}-{_hash(suite)}"
    with (cache.FOLDER / f"image-{suite}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            _build(suite, built)
    return Image(built)


def _hash(suite: str) -> str:
    files = sorted(path for path in RECIPE.rglob("*") if path.is_file())
    recipe = [(str(path.relative_to(RECIPE)), path.read_text(), path.stat().st_mode) for path in files]
    return hashlib.sha256(repr((suite, PACKAGES, DISK_SIZE, recipe)).encode()).hexdigest()[:16]


def _build(suite: str, target: Path) -> None:
    fresh = target.with_name(target.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    try:
        tree = fresh / "tree"
        _run(_mmdebstrap(suite, tree))
        for name in FILES:
            (tree / "lab" / name).rename(fresh / name)
        with (fresh / "disk.img").open("wb") as disk:
            disk.truncate(_bytes(DISK_SIZE))
        options = ["-O", "^metadata_csum,^has_journal", "-L", "labroot", "-d", str(tree)]
        _run(["mke2fs", "-q", "-t", "ext4", *options, str(fresh / "disk.img")])
        shutil.rmtree(tree)
        fresh.rename(target)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise


def _mmdebstrap(suite: str, tree: Path) -> list[str]:
    command = ["mmdebstrap", "--variant=minbase", "--mode=root", f"--include={PACKAGES}"]
    command += ["--aptopt=Apt::Install-Recommends false", "--dpkgopt=force-unsafe-io"]
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
    hook = f"--customize-hook={RECIPE / 'customize.sh'}"
    return [*command, "--skip=cleanup/apt", hook, suite, str(tree), f"deb {_mirror()} {suite} main"]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_LIMIT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed: {done.stderr[-3000:]}")


def _mirror() -> str:
    """Where this machine's own apt gets Debian from."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(COMPONENT)", "Created-By: Packages"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        uri, component = line.split()
        if component == "main" and re.search(r"/debian/?$", uri):
            return uri
    raise RuntimeError("apt knows no mirror of Debian: run apt-get update, or see /etc/apt/sources.list.d")


def _bytes(size: str) -> int:
    return int(size[:-1]) << {"M": 20, "G": 30}[size[-1]]
