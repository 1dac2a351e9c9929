"""Kernel log, the host itself: its CPUs, memory modules and disks work, and nothing in it is stuck."""

import pytest

from nodegate.api import Baseline, Host, KernelLog, Profile, Verdicts
from nodegate.kernel_log import incidents
from nodegate.kernel_log.window import LogWindow

pytestmark = pytest.mark.tier("bootcheck")


def test_hardware_errors(
    kernel_log: KernelLog, host: Host, baseline: Baseline, profile: Profile, verdicts: Verdicts
) -> None:
    """No CPU or memory module lost data, and none had to correct errors. (F09)

    An uncorrected error (EDAC UE, a machine check with bit UC of its status, firmware severity fatal or recoverable)
    kills programs or the node: it fails. A corrected one costs time and often comes before: it warns at delivery with
    its count, and names the module or CPU. Sources: kernel documentation, EDAC; Intel SDM volume 3, IA32_MCi_STATUS.
    """
    window = LogWindow.of(kernel_log, host, baseline, profile)
    incidents.tell_machine_checks(kernel_log, window, verdicts)
    incidents.clean(kernel_log, "hardware_error", window, verdicts)


def test_lockups(kernel_log: KernelLog, host: Host, baseline: Baseline, profile: Profile, verdicts: Verdicts) -> None:
    """No CPU was stuck: no soft or hard lock-up, and no RCU stall. (F09)

    A hard lock-up (a core that takes no interrupts) is hardware or firmware and fails; a soft one, or a stall, can be a
    driver's: it fails at delivery and warns before a job. Source: kernel documentation, lockup-watchdogs.
    """
    window = LogWindow.of(kernel_log, host, baseline, profile)
    incidents.tell(kernel_log, "lockup", window, verdicts)


def test_hung_tasks(
    kernel_log: KernelLog, host: Host, baseline: Baseline, profile: Profile, verdicts: Verdicts
) -> None:
    """No task was blocked for minutes. (F21, F31)

    The task is seldom at fault: what it waits for is, mostly storage, at times the GPU or NIC driver. The finding names
    both: the place from the stack in the log, or from where the task waits now. It warns: the log of a job that died of
    it says so. Source: kernel documentation, hung_task_timeout_secs (120 s).
    """
    window = LogWindow.of(kernel_log, host, baseline, profile)
    incidents.tell_hung_tasks(kernel_log, host, window, verdicts)
    incidents.clean(kernel_log, "hung_task", window, verdicts)


def test_nvme(kernel_log: KernelLog, host: Host, baseline: Baseline, profile: Profile, verdicts: Verdicts) -> None:
    """No NVMe disk timed out, went down or failed to read or write. (F31)

    Local disks hold images, caches and checkpoints; one that resets its controller stalls every rank of the node. It
    warns: whether the path is needed is judged at the mounts. At delivery a disk that the kernel gave up fails. Source:
    messages of the kernel's nvme driver.
    """
    window = LogWindow.of(kernel_log, host, baseline, profile)
    incidents.tell(kernel_log, "nvme", window, verdicts)


def test_file_systems(
    kernel_log: KernelLog, host: Host, baseline: Baseline, profile: Profile, verdicts: Verdicts
) -> None:
    """No file system was found damaged, shut down or remounted read-only. (F31)

    After such an error every write fails, and the node goes on as if nothing had happened: jobs die at their first
    checkpoint. It warns: whether the path is needed is judged at the mounts. At delivery one that cannot write any more
    fails. Source: messages of ext4 and XFS.
    """
    window = LogWindow.of(kernel_log, host, baseline, profile)
    incidents.tell(kernel_log, "file_system", window, verdicts)
