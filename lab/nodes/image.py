"""The root file system of the nodes: a small Debian with systemd and sshd, built once and kept in the cache.

What is in it stands in lab/nodes/recipe/; a change there, or in the release of this machine's own system, builds
another.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING

from lab import cache, debian

if TYPE_CHECKING:
    from collections.abc import Sequence

RECIPE = Path(__file__).parent / "recipe"
PACKAGES = "dbus,iproute2,kmod,openssh-server,passwd,pciutils,procps,python3,sudo,systemd,systemd-sysv,udev"


def image(more_packages: Sequence[str] = (), suite: str = "") -> Path:
    """The folder of the root file system, built where the cache has none; with more packages it is another one.

    `suite` is the release of Debian; by default this machine's own.

    Raises:
        RuntimeError: the machine has no mirror, or the build failed.
    """
    suite = suite or platform.freedesktop_os_release()["VERSION_CODENAME"]
    packages = ",".join([PACKAGES, *more_packages])
    key = debian.recipe_key(RECIPE, suite, packages)
    return cache.kept(f"node-{suite}", key, lambda tree: debian.build(suite, tree, packages, RECIPE))
