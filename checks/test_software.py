"""Software: driver, NCCL, CUDA and their settings are there, match and do not slow jobs."""

from collections.abc import Mapping

import pytest

from nodegate.api import (
    Baseline,
    Driver,
    Environment,
    Gpus,
    Host,
    NetDevice,
    Node,
    NvmlLibrary,
    Pci,
    Profile,
    Rdma,
    Services,
    Software,
    Unknown,
    Verdict,
    Verdicts,
    Why,
    part,
)
from nodegate.subjects import nccl_settings, pcie
from nodegate.subjects.host import judge_dma_buf, judge_version
from nodegate.subjects.rdma import end_without_rails

pytestmark = pytest.mark.tier("bootcheck")


def test_driver_loaded(driver: Driver, pci: Pci, baseline: Baseline, verdicts: Verdicts) -> None:
    """The NVIDIA kernel driver is loaded and reports its version. (F32)

    Without it there are no GPUs for jobs ("No CUDA GPUs are available").
    """
    if not pci.gpus and not driver.loaded:
        verdicts.not_done("no NVIDIA GPU on PCIe and no driver loaded")
    if not driver.loaded:
        remedy = "install the driver, or load it: modprobe nvidia"
        text = "NVIDIA kernel module not loaded"
        verdicts.found(Verdict.FAIL, part=part.software("driver"), text=text, action=remedy, code="not loaded")
        return
    least = baseline.find("software.driver_version_min")
    judge_version(
        verdicts, whose=part.software("driver"), version=driver.version, limit=least, remedy="update the driver"
    )


def test_driver_and_library(driver: Driver, nvml_library: NvmlLibrary, verdicts: Verdicts) -> None:
    """The NVIDIA kernel driver and its libraries have the same version. (F32)

    After an update without a reboot every program fails ("Driver/library version mismatch", NVML error 18).
    """
    if not driver.loaded:
        verdicts.not_done("the driver is not loaded: see software.driver_loaded")
    remedy = "reboot, or stop all GPU programs and reload the driver"
    if nvml_library.refuses_driver:
        verdicts.found(
            Verdict.FAIL,
            part=part.software("driver"),
            text="Driver/library version mismatch (NVML error 18)",
            note=f"the loaded kernel module is {driver.version}",
            action=remedy,
        )
        return
    verdicts.equal(
        part=part.software("driver"),
        quantity="library version",
        observed=nvml_library.driver_version,
        expected=driver.version,
        source="the loaded kernel module",
        action=remedy,
    )


def test_nccl_version(software: Software, baseline: Baseline, verdicts: Verdicts) -> None:
    """Every NCCL library on the node is new enough. (F20)

    NCCL 2.19 and 2.20 mix up bootstrap messages ("Message truncated") and fail in containers; 2.21.5 has the fix.
    It warns: jobs mostly bring their own NCCL. Source: NCCL 2.21.5 release notes, NVIDIA/nccl issues 1176 and 1273.
    """
    limit = baseline.limit("software.nccl_version_min")
    if isinstance(software.nccl, Unknown):
        verdicts.unknown(part=part.software("NCCL"), quantity="NCCL libraries", reason=software.nccl)
        return
    if not software.nccl:
        verdicts.not_demanded("no NCCL on the node: jobs bring their own")
    for library in software.nccl:
        judge_version(
            verdicts,
            whose=part.software(f"NCCL {library.path}"),
            version=library.version,
            limit=limit,
            remedy="update NCCL",
            otherwise=Verdict.WARN,
        )


def test_required(software: Software, host: Host, node: Node, baseline: Baseline, verdicts: Verdicts) -> None:
    """The programs that the inventory asks for (nodegate_require) are on the node, kernel modules loaded. (F27)

    A missing compiler or tool ends builds and measurements. "cuda" and "nccl" stand for the toolkit and the library.
    """
    wanted = node.settings.require
    if not wanted:
        verdicts.not_demanded("nothing requested: nodegate_require names programs")
    least = baseline.find("software.cuda_version_min")
    for name in wanted:
        found = nccl_settings.where(software, name)
        if isinstance(found, Unknown):
            verdicts.unknown(part=part.software(name), quantity="location", reason=found)
        elif not found and name in host.modules:
            verdicts.passed(part=part.software(name), text="the kernel module is loaded")
        elif not found:
            remedy = "install it in the node's image"
            verdicts.found(Verdict.FAIL, part=part.software(name), text="not installed", action=remedy)
        elif name == "cuda":
            judge_version(
                verdicts, whose=part.software(name), version=found, limit=least, remedy="update the CUDA toolkit"
            )
        else:
            verdicts.passed(part=part.software(name), text=found)


def test_gpudirect(host: Host, driver: Driver, pci: Pci, baseline: Baseline, verdicts: Verdicts) -> None:
    """NICs can read and write GPU memory: nvidia_peermem is loaded, or the driver exports it by dma-buf. (F32)

    Else all traffic between nodes goes through host memory, at less than half the speed. dma-buf needs the open
    kernel module and Linux 5.12. Source: NCCL documentation, NCCL_DMABUF_ENABLE; NVIDIA GPUDirect RDMA guide.
    """
    if not pci.gpus:
        verdicts.not_done("no NVIDIA GPU on PCIe")
    if not pcie.rdma_nics(pci):
        end_without_rails(pci, baseline, verdicts)
    if not driver.loaded:
        verdicts.not_done("the driver is not loaded: see software.driver_loaded")
    legacy = {"nvidia_peermem", "nv_peer_mem"} & host.modules.keys()
    if legacy:
        verdicts.passed(part=part.software("GPUDirect RDMA"), text=f"{min(legacy)} is loaded")
    elif isinstance(driver.open_kernel_module, Unknown):
        verdicts.unknown(
            part=part.software("GPUDirect RDMA"),
            quantity="type of kernel module (open or proprietary)",
            reason=driver.open_kernel_module,
        )
    elif driver.open_kernel_module:
        judge_dma_buf(verdicts, host.kernel_release)
    else:
        verdicts.found(
            Verdict.FAIL,
            part=part.software("GPUDirect RDMA"),
            text="nvidia_peermem not loaded, and the proprietary kernel module has no dma-buf",
            action="modprobe nvidia_peermem, and load it at boot",
        )


def test_nccl_settings(  # noqa: PLR0917 - arguments are facts
    environment: Environment,
    pci: Pci,
    rdma: Rdma,
    netdevs: Mapping[str, NetDevice],
    baseline: Baseline,
    profile: Profile,
    verdicts: Verdicts,
) -> None:
    """No setting of the login or of nccl.conf slows or breaks NCCL for every job. (F26)

    Settings that once worked around a fault stay in images for years: NCCL_IB_DISABLE=1 sends all traffic over TCP,
    a plugin path that is gone or an interface name of another machine stops NCCL at its start. A list of adapters that
    was written for another board leaves out rails: every job is slower, and nothing says so.
    """
    rails = nccl_settings.rails_of(rdma, baseline)
    otherwise = Verdict.FAIL if profile is Profile.DELIVERY else Verdict.WARN
    ports = [f"{device.name}:{port}" for device in rdma.devices for port in [each.port for each in device.ports] or [0]]
    per_board = baseline.find_number("gpu.per_board")
    has = {
        "rdma": bool(pcie.rdma_nics(pci)),
        "nvswitch": bool(pci.nvswitches),
        "superchips": per_board is not None and per_board.value > 1,
        "": True,
    }
    for origin, settings in nccl_settings.origins(environment).items():
        if isinstance(settings, Unknown):
            if settings.why is not Why.MISSING:
                verdicts.unknown(part=part.setting(origin), quantity="NCCL settings", reason=settings)
            continue
        for name, value in settings.items():
            if isinstance(there := environment.files.get(value), Unknown):
                verdicts.unknown(part=part.setting(origin), quantity=f"file of {name}", reason=there)
        for name, value, verdict, why in (
            *nccl_settings.harmful(settings, has),
            *nccl_settings.missing_files(settings, environment.files),
            *nccl_settings.dangling(settings, interfaces=netdevs, ports=ports, own=rails, otherwise=otherwise),
        ):
            verdicts.found(
                verdict,
                part=part.setting(origin),
                text=f"{name}={value}: {why}",
                action=f"remove {name} from {origin}",
                quantity=name,
                observed=value,
                code=name.lower(),
            )
    if not verdicts.findings:
        verdicts.passed(part=part.setting("NCCL settings"), text="none that slows or breaks jobs")


def test_persistence_daemon(services: Services, pci: Pci, gpus: Gpus, verdicts: Verdicts) -> None:
    """nvidia-persistenced runs. (F32)

    Without it the driver releases the GPUs between jobs: starts take seconds longer, and settings are lost. It warns:
    persistence mode can also be set by nvidia-smi, and where no systemd names the services NVML says whether it is.
    Source: NVIDIA driver persistence guide.
    """
    if not pci.gpus:
        verdicts.not_done("no NVIDIA GPU on PCIe")
    if isinstance(services.units, Unknown):
        if gpus.devices and all(gpu.persistence is True for gpu in gpus.devices):
            verdicts.passed(part=part.service("nvidia-persistenced"), text="persistence mode is on, by NVML")
            return
        verdicts.unknown(part=part.service("nvidia-persistenced"), quantity="service state", reason=services.units)
        return
    unit = services.units.get("nvidia-persistenced")
    state = "not installed" if unit is None or unit.load_state == "not-found" else unit.active_state
    verdicts.equal(
        part=part.service("nvidia-persistenced"),
        quantity="service state",
        observed=state,
        expected="active",
        action="systemctl enable --now nvidia-persistenced",
        otherwise=Verdict.WARN,
    )
