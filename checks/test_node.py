"""The node itself: it can be reached and says who it is."""

from collections.abc import Mapping

import pytest

from nodegate.api import Disks, Host, Jobs, NetDevice, Unknown, Verdict, Verdicts, part, value_or

pytestmark = pytest.mark.tier("bootcheck")


def test_reachable(host: Host, verdicts: Verdicts) -> None:
    """The node responds over its connection and reports its name. (F10)

    A node that does not respond takes every job on it with it. It is a verdict of its own (`unreachable`), never a gap
    in the report: all its other checks are `error` too.
    """
    verdicts.passed(
        part=part.NODE, text=f"responds as {host.hostname}", quantity="hostname", observed=value_or(host.hostname, "")
    )


def test_listed(host: Host, disks: Disks, netdevs: Mapping[str, NetDevice], jobs: Jobs, verdicts: Verdicts) -> None:
    """The node lists its disks, network devices, jobs and ports. (F10, F31)

    A list that does not come is a kernel or a device that hangs. One without an entry warns: some nodes start without
    a disk, and a container has no network device of its own; on all others the devices are gone.
    """
    virtual = host.in_container is True and not netdevs
    for quantity, found, action in (
        ("disks", disks.devices, "compare it with another node; nodegate_expect says how many disks there are"),
        ("network devices", netdevs, "ip link on the node: is its network a virtual one?"),
    ):
        missing = not found and not (virtual and found is netdevs)
        verdicts.found(
            Verdict.WARN if missing else Verdict.PASS,
            part=part.NODE,
            quantity=quantity,
            observed=len(found),
            text=f"lists no {quantity}" if missing else "" if found else "a container: its network devices are virtual",
            action=action,
            code=quantity,
        )
    for quantity, reading in (("Slurm jobs", jobs.slurm_jobs), ("listening ports", jobs.listening_ports)):
        if isinstance(reading, Unknown):
            verdicts.unknown(part=part.NODE, quantity=quantity, reason=reading)
        else:
            verdicts.passed(part=part.NODE, quantity=quantity, text=f"{quantity} were listed")
