"""What this machine has: NVIDIA GPUs or not, and a driver that answers for them."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure

if TYPE_CHECKING:
    from nodegate.transport.session import Session

_NVIDIA = "0x10de"
_DISPLAY = "0x03"  # VGA and 3D controllers; switches and audio of the same vendor have other classes
_ANSWER_S = 60.0
_NOT_LOADED = "9"  # NVML_ERROR_DRIVER_NOT_LOADED: its library alone is installed
_COUNT = """
import ctypes
try:
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
except OSError as error:
    print("none", error)
else:
    count = ctypes.c_uint()
    code = nvml.nvmlInit_v2() or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    print("error", code) if code else print("count", count.value)
"""


@dataclass(frozen=True)
class Seen:
    """GPUs by the kernel (PCIe, device nodes) and by the driver; `trouble` is why the driver does not answer."""

    by_kernel: int
    by_driver: int
    trouble: str
    absent: bool  # there is no driver, or it says that there is nothing for it

    @property
    def none(self) -> bool:
        """No trace of a GPU anywhere. A driver that answers an error may have GPUs."""
        return self.absent and not self.by_kernel


def look(session: Session) -> Seen:
    """Ask kernel and driver. NVML is asked in a process of its own, within a time limit: it may hang."""
    kernel = max(_on_pcie(), len(list(Path("/dev").glob("nvidia[0-9]*"))))
    try:
        output = session.run([session.node.connection.python, "-I", "-S", "-c", _COUNT], timeout_s=_ANSWER_S)
    except CannotMeasure as why:
        return Seen(kernel, 0, why.reason, absent=False)
    word, _, rest = output.stdout.decode("utf-8", "replace").strip().partition(" ")
    if word == "count":
        return Seen(kernel, int(rest), "" if int(rest) else "the driver lists no GPU", absent=rest == "0")
    said = output.stderr.decode("utf-8", "replace").strip()[-200:]
    trouble = {"none": f"no driver: {rest}", "error": f"NVML starts with error {rest}"}.get(word)
    absent = word == "none" or (word, rest) == ("error", _NOT_LOADED)
    return Seen(kernel, 0, trouble or f"NVML did not answer within {_ANSWER_S:g} s {said}".strip(), absent=absent)


def words() -> dict[str, str]:
    """This machine in words, without its name: for the report."""
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "cpus": str(len(os.sched_getaffinity(0))),
        "commit": _commit(),
    }


def _on_pcie() -> int:
    count = 0
    for device in Path("/sys/bus/pci/devices").glob("*"):
        try:
            vendor, kind = (device / "vendor").read_text().strip(), (device / "class").read_text().strip()
        except OSError:
            continue
        count += vendor == _NVIDIA and kind.startswith(_DISPLAY)
    return count


def _commit() -> str:
    """Which nodegate it is: the commit, with + where files differ from it; "" outside a checkout."""
    folder = str(Path(__file__).parent)
    try:
        head, changed = (
            subprocess.run(["git", "-C", folder, *words], capture_output=True, text=True, timeout=10, check=False)
            for words in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain"))
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "") if head.returncode == 0 else ""
