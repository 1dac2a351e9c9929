"""The root file system of the test nodes: a small Debian with systemd and sshd, built once and kept in the cache.

What is in it stands in tests/nodes/; a change there, or in the release of this machine's own system, builds another.
"""

from __future__ import annotations

import fcntl
import hashlib
import platform
import shutil
import subprocess
from pathlib import Path

from support import cache

RECIPE = Path(__file__).parent.parent / "nodes"
PACKAGES = "dbus,iproute2,kmod,openssh-server,passwd,pciutils,procps,python3,sudo,systemd,systemd-sysv,udev"
BUILD_LIMIT_S = 900
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/man/*")


def image() -> Path:
    """The folder of the root file system, built where the cache has none.

    Raises:
        RuntimeError: the machine has no mirror for its own release, or the build failed.
    """
    suite = platform.freedesktop_os_release()["VERSION_CODENAME"]
    cache.FOLDER.mkdir(parents=True, exist_ok=True)
    built = cache.FOLDER / f"node-{_hash(suite)}"
    with (cache.FOLDER / "node.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            _build(suite, built)
    return built


def _hash(suite: str) -> str:
    files = sorted(path for path in RECIPE.rglob("*") if path.is_file())
    recipe = [(str(path.relative_to(RECIPE)), path.read_text()) for path in files]
    return hashlib.sha256(repr((suite, PACKAGES, recipe)).encode()).hexdigest()[:16]


def _build(suite: str, target: Path) -> None:
    fresh = target.with_name(target.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    command = ["mmdebstrap", "--variant=minbase", "--mode=root", f"--include={PACKAGES}"]
    command += ["--aptopt=Apt::Install-Recommends false", "--dpkgopt=force-unsafe-io"]
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
    command += [f"--customize-hook={RECIPE / 'customize.sh'}", suite, str(fresh), f"deb {_mirror(suite)} {suite} main"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_LIMIT_S, check=False)
    if done.returncode != 0:
        shutil.rmtree(fresh, ignore_errors=True)
        raise RuntimeError(f"mmdebstrap failed: {done.stderr[-2000:]}")
    fresh.replace(target)


def _mirror(suite: str) -> str:
    """Where this machine's own apt gets its release from."""
    command = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)", "Created-By: Packages"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():
        uri, codename, component = line.split()
        if (codename, component) == (suite, "main"):
            return uri
    raise RuntimeError(f"apt knows no mirror of {suite} main: run apt-get update, or see /etc/apt/sources.list.d")
