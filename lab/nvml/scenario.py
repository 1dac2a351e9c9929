"""A mock NVML library, compiled once, and the scenarios that it serves: GPUs healthy or not, without any GPU."""

from __future__ import annotations

import functools
import hashlib
import re
import subprocess
import tempfile
from pathlib import Path

import pynvml

from lab.cache import FOLDER

SOURCES = Path(__file__).parent
CACHE = FOLDER / "nvml"
LIBRARY = "libnvidia-ml.so.1"
GPU_IS_LOST = 15

BUS_IDS = ("1A", "3B", "4C", "5D", "9A", "BB", "CD", "DB")
# On an HGX board the module numbers do not follow the PCI order.
MODULE_IDS = (2, 4, 3, 1, 6, 8, 7, 5)

_SYSTEM = {"driver": "550.163.01", "nvml": "12.550.163.01", "cuda": 12040, "confidential": 0}
_H100 = {
    "name": "NVIDIA H100 80GB HBM3",
    "part_number": "692-2G520-0200-000",
    "vbios": "96.00.89.00.01",
    "inforom_image": "G520.0200.00.05",
    "pci_device_id": "0x233010DE",
    "pci_subsystem_id": "0x16C110DE",
    "brand": 14,
    "architecture": 9,
    "compute_capability": "9.0",
    "display_mode": 0,
    "display_active": 0,
    "link_width": 16,
    "link_width_max": 16,
    "link_gen": 5,
    "link_gen_max": 5,
    "link_gen_gpu_max": 5,
    "pcie_replays": 0,
    "clock.0": 1980,
    "clock.1": 1980,
    "clock.2": 2619,
    "clock.3": 1545,
    "clock_max.0": 1980,
    "clock_max.1": 1980,
    "clock_max.2": 2619,
    "clock_max.3": 1545,
    "clock_app.0": 1980,
    "clock_app.2": 2619,
    "clock_app_default.0": 1980,
    "clock_app_default.2": 2619,
    "event_reasons": 1,
    "event_reasons_supported": "0x1ff",
    "violation.0": 1200000,
    "violation.1": 0,
    "violation.3": 0,
    "violation.5": 0,
    "power": 71500,
    "power_limit": 700000,
    "power_limit_default": 700000,
    "power_limit_enforced": 700000,
    "power_limit_min": 200000,
    "power_limit_max": 700000,
    "power_mode": 1,
    "energy": 123456789,
    "temperature.0": 34,
    "temperature_margin": 51,
    "temperature_threshold.0": 92,
    "temperature_threshold.1": 89,
    "field.82": 45,
    "field.185": 71500,
    "field.186": 71500,
    "field.230": 0,
    "ecc": 1,
    "sram_threshold_exceeded": 0,
    "remap.bank.max": 2560,
    "gsp_version": "550.163.01",
    "gsp_enabled": 1,
    "gsp_default": 1,
    "fabric_state": 3,
    "fabric_status": 0,
    "fabric_health_mask": 426,
    "fabric_health_summary": 1,
    "nvlinks": 18,
    "nvlink_version": 4,
    "nvlink_remote_type": 2,
    "field.161": 0,
    "field.162": 0,
    "field.163": 0,
    "field.164": 26562,
    "p2p": 0,
    "virtualization": 0,
    "persistence": 1,
    "compute_mode": 0,
    "mig": 0,
    "performance_state": 0,
    "utilization": 0,
    "memory_total": 85520809984,
    "memory_reserved": 546308096,
    "memory_used": 0,
    "bar1_total": 137438953472,
}


class Scenario:
    """What the mock answers. Every method returns the scenario, so that faults can be written one after the other."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}

    def system(self, key: str, value: object) -> Scenario:
        """A value of the system: count, driver, nvml, cuda, confidential, process.PID."""
        self._values[f"sys.{key}"] = str(value)
        return self

    def set(self, gpu: int | None, key: str, value: object) -> Scenario:
        """A value of one GPU, or of every GPU (None). The keys stand at the calls in lab/nvml/nvmlmock.c."""
        self._values[f"gpu.{key}" if gpu is None else f"gpu.{gpu}.{key}"] = str(value)
        return self

    def lose(self, gpu: int, *, keeps_handle: bool = False) -> Scenario:
        """The GPU has fallen off the bus: no handle for it; or, lost in mid-run, a handle on which every call fails."""
        if not keeps_handle:
            self.error("nvmlDeviceGetHandleByIndex", GPU_IS_LOST, gpu=gpu)
        return self.set(gpu, "lost", 1)

    def hang(self, gpu: int | None, function: str, seconds: float) -> Scenario:
        """A call takes so long. `gpu` None: a call that takes no GPU."""
        return self._fault("sleep", function, seconds, gpu)

    def crash(self, gpu: int | None, function: str) -> Scenario:
        """A call dies of SIGSEGV."""
        return self._fault("crash", function, 1, gpu)

    def error(self, function: str, code: int, *, gpu: int | None = None) -> Scenario:
        """A call answers an NVML error: on one GPU, or wherever it is called."""
        if gpu is None:
            self._values[f"gpu.error.{function}"] = str(code)
        return self._fault("error", function, code, gpu)

    def missing(self, function: str) -> Scenario:
        """The library is too old for a function (13, function not found)."""
        return self.error(function, 13)

    def write(self, path: Path) -> Path:
        """Write the scenario file; a library that serves it already reads it again."""
        fresh = path.with_name(path.name + ".new")
        fresh.write_text("".join(f"{key} = {value}\n" for key, value in self._values.items()))
        fresh.replace(path)
        return path

    def _fault(self, kind: str, function: str, value: object, gpu: int | None) -> Scenario:
        where = "sys" if gpu is None else f"gpu.{gpu}"
        self._values[f"{where}.{kind}.{function}"] = str(value)
        return self


def healthy_h100(gpus: int = 8) -> Scenario:
    """A healthy HGX H100 node."""
    scenario = Scenario().system("count", gpus)
    for key, value in _SYSTEM.items():
        scenario.system(key, value)
    for key, value in _H100.items():
        scenario.set(None, key, value)
    for gpu in range(gpus):
        bus = BUS_IDS[gpu] if gpu < len(BUS_IDS) else f"{0xE0 + gpu:02X}"
        scenario.set(gpu, "bus_id", f"00000000:{bus}:00.0")
        scenario.set(gpu, "uuid", f"GPU-00000000-0000-4000-8000-{gpu:012d}")
        scenario.set(gpu, "serial", serial(123, gpu))
        scenario.set(gpu, "module_id", MODULE_IDS[gpu % len(MODULE_IDS)])
        scenario.set(gpu, "numa_node", 0 if gpu < gpus // 2 else 1)
    return scenario


def serial(node: int, gpu: int) -> int:
    """The serial number of a GPU: no two boards of a lab share one."""
    return 1_650_000_000_001 + node * 1_000_000 + gpu


def environment(scenario: Path, *binaries: Path) -> dict[str, str]:
    """The variables with which a program loads the mock and serves this scenario file."""
    return {"LD_LIBRARY_PATH": str(library(*binaries).parent), "NVML_MOCK_SCENARIO": str(scenario)}


@functools.cache
def library(*binaries: Path) -> Path:
    """The compiled mock library: every name that pynvml or one of the binaries looks up is in it."""
    names = _names_of(Path(pynvml.__file__).read_bytes(), rb'_nvmlGetFunctionPointer\("(\w+)"')
    for binary in binaries:
        names |= _names_of(binary.read_bytes(), rb"\0(nvml[A-Z]\w+)(?=\0)")
    # The stubs are weak: a function that nvmlmock.c defines takes the place of its stub.
    stubs = "".join(f"__attribute__((weak)) int {name}(void) {{ return 3; }}\n" for name in sorted(names))
    sources = [SOURCES / "nvmlmock.c", SOURCES / "scenario.c"]
    content = b"".join(file.read_bytes() for file in [*sources, SOURCES / "scenario.h"])
    built = CACHE / hashlib.sha256(content + stubs.encode()).hexdigest()[:16] / LIBRARY
    if not built.exists():
        _compile(sources, stubs, built)
    return built


def _names_of(text: bytes, pattern: bytes) -> set[str]:
    return {name.decode() for name in re.findall(pattern, text)}


def _compile(sources: list[Path], stubs: str, built: Path) -> None:
    built.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent) as folder:
        stub_file, fresh = Path(folder, "stubs.c"), Path(folder, LIBRARY)
        stub_file.write_text(stubs)
        options = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread", f"-Wl,-soname,{LIBRARY}"]
        subprocess.run(["gcc", *options, "-o", fresh, *sources, stub_file], check=True, timeout=120)
        fresh.replace(built)
