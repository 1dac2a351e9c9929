"""GPUs: all are there, respond, report themselves healthy, and are set as the site wants them."""

from collections import Counter

import pytest

from nodegate.api import Baseline, Driver, Gpus, Host, KernelLog, Pci, Profile, Verdict, Verdicts, absence, part
from nodegate.kernel_log.incidents import clean
from nodegate.kernel_log.window import LogWindow
from nodegate.subjects.gpu import (
    ON_OFF,
    Standing,
    answering,
    answers_on_bus,
    named,
    off_bus,
    on_off,
    presence,
    usual,
    worded,
)

pytestmark = pytest.mark.tier("bootcheck")

_POWER_CYCLE = "power-cycle the node (a reboot may not be enough); if it stays, reseat or replace the GPU"
_AS_ROOT = "log in as root or run inside the job: the login's device cgroup hides it"
_WHICH = "see the findings of gpu.lost and gpu.bound for which and why"
_RESPONDING = "the number of GPUs that respond"
COMPUTE_MODES = {0: "default", 1: "exclusive thread", 2: "prohibited", 3: "exclusive process"}  # nvml.h
RECOVERY_ACTIONS = {  # nvml.h, NVML_GPU_RECOVERY_ACTION_*
    0: "none",
    1: "GPU reset",
    2: "node reboot",
    3: "drain peer-to-peer work",
    4: "drain and reset",
    5: "recover the IMEX domain",
    6: "bus reset",
    7: "system reboot",
}


def test_count(gpus: Gpus, pci: Pci, driver: Driver, baseline: Baseline, verdicts: Verdicts) -> None:
    """PCIe lists as many GPUs as the node should hold, and as many respond. (F02)

    A missing GPU makes every job of the node fail at start, or run short. The number is the platform's or the
    inventory's. GPUs that this login cannot see, or that NVML hung before, leave the count open.
    """
    limit = baseline.number("gpu.count")
    seen = presence(pci, driver, gpus)
    action = "look for the slot that PCIe does not list; power-cycle the node; if it stays, reseat or replace the GPU"
    on_pcie = len(pci.gpus)
    verdicts.equal(
        part=part.NODE, quantity="GPUs on PCIe", observed=on_pcie, expected=limit, action=action, code="on pcie"
    )
    standings = Counter(gpu.standing for gpu in seen)
    if standings[Standing.HIDDEN]:
        reason = f"{standings[Standing.HIDDEN]} of {len(seen)} are hidden from this login"
        verdicts.unknown(part=part.NODE, quantity=_RESPONDING, reason=reason, action=_AS_ROOT, blocked_by="gpu.lost")
        return
    silent, most = standings[Standing.UNCLEAR], standings[Standing.ANSWERS] + standings[Standing.UNCLEAR]
    if silent and most in (len(seen), limit.value):  # none is known to be missing
        reason = f"{silent} of {len(seen)} gave ambiguous answers"
        verdicts.unknown(part=part.NODE, quantity=_RESPONDING, reason=reason, action=_WHICH, blocked_by="gpu.lost")
        return
    verdicts.found(
        Verdict.PASS if most == limit.value else Verdict.FAIL,
        part=part.NODE,
        text=f"{'at most ' if silent else ''}{most} of {len(seen)} GPUs respond",
        quantity=_RESPONDING,
        observed=most,
        unit=limit.unit,
        limit=limit,
        action=_WHICH,
        code="not responding",
    )


def test_lost(gpus: Gpus, pci: Pci, driver: Driver, verdicts: Verdicts) -> None:
    """Every GPU that PCIe lists responds to the driver and to NVML. (F02)

    A lost GPU kills the job that uses it. PCIe, /proc/driver/nvidia, /dev/nvidia* and NVML are compared, since sshd's
    device cgroup can hide healthy GPUs from NVML: those are `error`, for nothing is known of them.
    """
    for gpu in presence(pci, driver, gpus):
        if gpu.standing is Standing.ANSWERS:
            verdicts.passed(part=gpu.part, text="responds")
        elif gpu.standing is Standing.LOST:
            text = f"lost: {gpu.reason}"
            verdicts.found(Verdict.FAIL, part=gpu.part, text=text, action=_POWER_CYCLE, code="lost")
        elif gpu.standing is Standing.UNBOUND:
            text, action = f"not in use by the NVIDIA driver: {gpu.reason}", "see the findings of gpu.bound"
            verdicts.found(Verdict.FAIL, part=gpu.part, text=text, action=action, code="not bound")
        elif gpu.standing is Standing.HIDDEN:
            reason = f"hidden from this login: {gpu.reason}"
            verdicts.unknown(part=gpu.part, quantity="its state", reason=reason, action=_AS_ROOT)
        else:
            verdicts.unknown(part=gpu.part, quantity="its state", reason=gpu.reason)


def test_on_bus(pci: Pci, verdicts: Verdicts) -> None:
    """Every GPU that PCIe lists responds on the bus. (F02)

    A device that has fallen off the bus reads as all ff (`lspci`: rev ff). This needs neither driver nor NVML, which
    may both hang because of it.
    """
    if not pci.gpus:
        verdicts.cannot("PCIe lists no NVIDIA GPU", next_step="see gpu.count; is this a GPU node?")
    for device in pci.gpus:
        verdicts.holds(
            part=part.gpu(address=device.address),
            quantity="its PCIe configuration space",
            observed=answers_on_bus(device),
            good="responds on PCIe",
            bad="does not respond on PCIe",
            action=_POWER_CYCLE,
        )


def test_bound(pci: Pci, driver: Driver, verdicts: Verdicts) -> None:
    """NVIDIA's driver is loaded and drives every GPU that PCIe lists. (F02, F32)

    A GPU that the driver refused at start (its firmware did not come up, another driver has it) is on PCIe and
    nowhere else. Read from /sys/bus/pci: this needs no NVML.
    """
    verdicts.holds(
        part=part.software("NVIDIA kernel module"),
        quantity="whether it is loaded",
        observed=driver.loaded,
        good="loaded",
        bad="not loaded",
        action="modprobe nvidia; if it does not load, read the kernel log for why",
        code="module",
    )
    for device in pci.gpus:
        verdicts.equal(
            part=part.gpu(address=device.address),
            quantity="kernel driver",
            observed=device.driver or "none",
            expected="nvidia",
            action="read the kernel log for NVRM lines of this address; reboot; if it stays, replace the GPU",
            code="not bound",
        )


def test_fallen_off_bus(
    kernel_log: KernelLog, host: Host, baseline: Baseline, profile: Profile, verdicts: Verdicts
) -> None:
    """The kernel has reported no GPU as fallen off the bus since the node started. (F02)

    NVIDIA's driver says so in four forms, not all with an Xid. The lines around it keep the serial number of a board
    that NVML can no longer read. A log that is not whole since then proves nothing.
    """
    for lost in off_bus(kernel_log):
        verdicts.found(Verdict.FAIL, part=lost, text="fell off the bus", action=_POWER_CYCLE)
    window, text = LogWindow.of(kernel_log, host, baseline, profile), f"no GPU fell off the bus ({kernel_log.source})"
    clean(kernel_log, "off_bus", window, verdicts, text=text)


def test_recovery_action(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """No GPU asks for a reset, a drain or a reboot. (F02, F03, F04)

    The driver (565 and later) itself says what a faulty GPU needs before it may be used again; jobs fail until then.
    """
    for gpu in answering(gpus, verdicts):
        wanted = named(gpu.recovery_action, RECOVERY_ACTIONS)
        verdicts.equal(
            part=gpu.part,
            quantity="recovery action",
            observed=wanted,
            expected="none",
            action=f"drain the node, then: {wanted}; if it asks again, replace the GPU",
            absent=absence("recovery_action", gpu, gpus, baseline),
        )


def test_inforom(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """The InfoROM of every GPU is valid. (F03)

    A corrupt InfoROM loses the board's record of ECC errors and remapped rows, so its health cannot be known.
    nvidia-smi only prints a warning line and exits with 0, so tools that read its exit code pass such a board.
    """
    for gpu in answering(gpus, verdicts):
        verdicts.holds(
            part=gpu.part,
            quantity="InfoROM validity",
            observed=gpu.inforom_valid,
            good="InfoROM valid",
            bad="InfoROM corrupt",
            action="reset the GPU and read again; if it stays corrupt, replace the board",
            absent=absence("inforom", gpu, gpus, baseline),
        )


def test_persistence(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """Persistence mode of every GPU is as the site wants it, on by default. (F33)

    Without it the driver unloads the GPU after each process: seconds at each start, and settings (power limit, clocks)
    are lost. It breaks no job, so it is a warning, though DCGM and Azure NHC fail it.
    """
    limit = worded(baseline.switch("gpu.persistence"), ON_OFF)
    for gpu in answering(gpus, verdicts):
        verdicts.equal(
            part=gpu.part,
            quantity="persistence mode",
            observed=on_off(gpu.persistence),
            expected=limit,
            action="start nvidia-persistenced, or run nvidia-smi -pm 1",
            otherwise=Verdict.WARN,
        )


def test_compute_mode(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """The compute mode of every GPU is the site's, `default` where it says none. (F33)

    In mode `prohibited` no CUDA program starts; in `exclusive process` a second one on the same GPU is refused.
    """
    limit = worded(baseline.number("gpu.compute_mode"), COMPUTE_MODES)
    for gpu in answering(gpus, verdicts):
        verdicts.equal(
            part=gpu.part,
            quantity="compute mode",
            observed=named(gpu.compute_mode, COMPUTE_MODES),
            expected=limit,
            action="set it with nvidia-smi -c",
            absent=absence("compute_mode", gpu, gpus, baseline),
        )


def test_mig(gpus: Gpus, baseline: Baseline, verdicts: Verdicts) -> None:
    """The MIG mode of every GPU is in force, and is the site's, or that of most GPUs of the node. (F33)

    A mode that waits for a reset changes the node under a later job. A GPU cut into instances gives no whole GPU: a
    job that takes all of the node finds one too few. A site that mixes on purpose says so (`gpu.mig: mixed`).
    """
    policy = baseline.find("gpu.mig")
    wanted = policy or usual(on_off(gpu.mig_enabled) for gpu in gpus.devices)
    action = "set the mode with nvidia-smi -mig, then reset the GPU while it is idle"
    for gpu in answering(gpus, verdicts):
        mode, pending = on_off(gpu.mig_enabled), on_off(gpu.mig_pending)
        if wanted is not None and wanted.value != "mixed":
            verdicts.equal(
                part=gpu.part,
                quantity="MIG mode",
                observed=mode,
                expected=wanted,
                action=action,
                absent=absence("mig", gpu, gpus, baseline),
                code="mode",
            )
        verdicts.equal(
            part=gpu.part,
            quantity="pending MIG mode",
            observed=pending,
            expected=mode,
            source="the mode in force",
            action=action,
            otherwise=Verdict.WARN,
            absent=absence("mig", gpu, gpus, baseline),
            code="pending",
        )
