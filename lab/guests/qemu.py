"""QEMU, one of Debian's on every machine: what it emulates, and how fast, is then not up to the machine's own release.

QEMU 10 of trixie takes a fifth to a third less processor time for the same guests than QEMU 7.2 of bookworm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab import cache, debian

if TYPE_CHECKING:
    from pathlib import Path

SUITE = "trixie"
PACKAGES = "qemu-system-x86,qemu-utils,seabios"


def tree() -> Path:
    """The folder of a small Debian with QEMU in it, built where the cache has none.

    Raises:
        RuntimeError: this machine has no mirror, or the build failed.
    """
    return cache.kept("qemu", cache.key(SUITE, PACKAGES), lambda folder: debian.build(SUITE, folder, PACKAGES))


def program(name: str) -> list[str]:
    """The command that starts a program of QEMU's here, with the libraries that it was built for."""
    root = tree()
    libraries = root / "usr/lib/x86_64-linux-gnu"
    return [str(root / "lib64/ld-linux-x86-64.so.2"), "--library-path", str(libraries), str(root / "usr/bin" / name)]


def system() -> list[str]:
    """The command that starts a guest's QEMU, with its firmware."""
    firmware = tree() / "usr/share"
    return [*program("qemu-system-x86_64"), "-L", str(firmware / "qemu"), "-L", str(firmware / "seabios")]
