"""A build of an image that is killed leaves no process and no mount, so that the next one can begin anew."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from lab import needs
from lab.nodes.nodes import why_not
from lab.processes import children_of, name_of, wait_until
from lab.run import ROOT

PROGRAM = "from lab.nodes.image import image; image()"


def test_kill_9_leaves_no_process_and_no_mount(tmp_path: Path) -> None:
    needs.require(why_not())
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    building = subprocess.Popen([sys.executable, "-c", PROGRAM], cwd=ROOT, env=environment)
    assert wait_until(lambda: any(unpacked(tmp_path)) or building.poll() is not None, limit_s=600)
    started = children_of(building.pid)
    assert started
    building.send_signal(signal.SIGKILL)
    building.wait()
    assert wait_until(lambda: not any(name_of(pid) for pid in started), limit_s=20)
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()


def unpacked(cache: Path) -> list[Path]:
    """What of the new root file system is there: its dpkg, when packages are being installed."""
    return list(cache.glob("nodegate-lab/*.new/usr/bin/dpkg"))
