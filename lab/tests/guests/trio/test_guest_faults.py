"""The whole suite over guests that are GPU nodes with a kernel of their own, each with a fault set from outside.

gpu-1 is healthy in both runs. What a kernel has said stays in its log, so a guest gets those faults in its last one; in
the second run gpu-3 is started again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from lab.fault_table import Told
from lab.guests import faults, gpu_node
from lab.guests.full_guest import whole
from lab.guests.guest import Guest
from lab.guests.guests import Guests
from lab.guests.leases import Lease
from lab.run import Outcome, Run, words_of
from nodegate.claims.verdict import node_verdict
from nodegate.records.verdict import NodeVerdict


class Case(NamedTuple):
    """A fault on a guest, and what the suite says of it: verdict and words of the check that has to find it."""

    fault: faults.Fault
    name: str
    injected: str
    check: str
    verdict: str
    words: str


STATES = {
    "gpu-2": [
        Case(
            faults.link_down,
            "link down",
            "guest: cable of rail1 pulled",
            "rdma.port_state",
            "fail",
            "rxe1 port 1 (0000:02:00.0, rail1): state DOWN",
        ),
        Case(
            faults.little_locked_memory,
            "locked memory of logins limited to 8 MiB",
            "guest: /etc/security/limits.d",
            "host.locked_memory",
            "fail",
            "login: locked memory 8 MiB",
        ),
        Case(
            faults.no_root,
            "kernel log for root only (dmesg_restrict)",
            "inventory: login ops, no sudo",
            "kernel_log.xid",
            "error",
            "kernel_log could not be read: denied",
        ),
        Case(
            faults.clock_fast,
            "clock three hours ahead, time service content",
            "guest: date -s '+3 hours'",
            "host.clock_skew",
            "fail",
            "clock: difference from the controller's clock 10",
        ),
    ],
    "gpu-3": [
        Case(
            faults.correctable_errors,
            "correctable PCIe errors",
            "guest: module aer_inject, bad TLPs at a root port",
            "pcie.correctable_errors",
            "warn",
            "correctable PCIe errors since boot 5",
        ),
        Case(faults.sxid, "SXid in the kernel log", "guest: /dev/kmsg", "kernel_log.sxid", "fail", "20034"),
        Case(
            faults.node_out_of_memory,
            "out of memory in the kernel log",
            "guest: /dev/kmsg",
            "kernel_log.memory",
            "warn",
            "Out of memory: Killed process",
        ),
        Case(
            faults.clock_slow,
            "clock three hours behind, time service content",
            "guest: date -s '-3 hours'",
            "host.clock_skew",
            "fail",
            "clock: difference from the controller's clock",
        ),
        Case(
            faults.disk_full,
            "disk full",
            "guest: / and /tmp filled to the last byte",
            "host.free_space",
            "warn",
            "/: free space 0 %",
        ),
    ],
}
LOG = {
    "gpu-2": [
        Case(
            faults.clock_set_after_an_xid,
            "Xid before the clock was set",
            "guest: clock three days slow, Xid by /dev/kmsg, clock set",
            "kernel_log.xid",
            "fail",
            "Xid 48",
        ),
        Case(
            faults.link_flaps,
            "link flap",
            "guest: cable of rail1 pulled and put back three times",
            "kernel_log.nic_flaps",
            "fail",
            "rxe1 (0000:02:00.0, rail1): link down",
        ),
        Case(faults.xid, "Xid in the kernel log", "guest: /dev/kmsg", "kernel_log.xid", "fail", "Xid 79"),
        Case(
            faults.job_out_of_memory,
            "a job runs out of memory",
            "guest: python3 in a control group of 48 MiB",
            "kernel_log.memory",
            "warn",
            "Memory cgroup out of memory: Killed process",
        ),
        Case(
            faults.fatal_error,
            "fatal PCIe error",
            "guest: module aer_inject, data link error at a root port",
            "kernel_log.pcie_errors",
            "fail",
            "severity=Uncorrectable (Fatal)",
        ),
    ],
}
RUNS = {"states": STATES, "log": LOG}
# How the healthy gpu-1 is logged in to.
HEALTHY = {"states": faults.by_sudo, "log": faults.nothing}
RESTARTED = ("log", "gpu-3")
CASES = [(run, node, case) for run, nodes in RUNS.items() for node, cases in nodes.items() for case in cases]


class Site:
    """Three guests, and the runs over them, each made when it is first asked for."""

    def __init__(self, lab: Guests, folder: Path) -> None:
        self.lab, self._folder = lab, folder
        self.restarted_s = 0.0  # when in its run
        self._outcomes: dict[str, Outcome | RuntimeError] = {}

    def outcome(self, run: str) -> Outcome:
        """What a run of `RUNS` said. A fault that could not be set is not tried again."""
        if run not in self._outcomes:
            try:
                self._outcomes[run] = self._with_faults(run, RUNS[run])
            except RuntimeError as why:
                self._outcomes[run] = why
        found = self._outcomes[run]
        if isinstance(found, RuntimeError):
            raise found
        return found

    def _with_faults(self, run: str, cases: dict[str, list[Case]]) -> Outcome:
        guests = {guest.name: guest for guest in self.lab.guests}
        variables: dict[str, dict[str, str]] = {}
        with ExitStack() as broken:
            variables["gpu-1"] = broken.enter_context(HEALTHY[run](guests["gpu-1"]))
            for node, each in cases.items():
                for case in each:
                    variables.setdefault(node, {}).update(broken.enter_context(case.fault(guests[node])))
            with whole(self.lab, self._folder / run, self.lab.guests, variables=variables) as started:
                if run == RESTARTED[0]:
                    self._restart(guests[RESTARTED[1]], started)
                return started.outcome()

    def _restart(self, guest: Guest, started: Run) -> None:
        started.wait_for(lambda: faults.probe_runs(guest), step_s=0.5)
        guest.reset()
        self.restarted_s = started.elapsed_s


@pytest.fixture(scope="module")
def site(trio: Lease, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    trio.give_up()  # what a bad cable has left in their kernel logs is none of these faults
    lab = trio.sound()
    for guest in lab.guests:
        gpu_node.prepare(guest)
    yield Site(lab, tmp_path_factory.mktemp("guests"))
    trio.give_up()  # they are GPU nodes now, and sick ones


def alarms(outcome: Outcome, node: str, known: Sequence[str] = ()) -> dict[str, str]:
    """What a check found or could not measure on a node, by check; without the known ones."""
    return {
        check: f"{record.verdict.value}: {words_of(record)}"
        for check, record in outcome.of(node).items()
        if record.verdict.value not in {"pass", "skip", "not-judged"} and check not in known
    }


@pytest.mark.parametrize(("run", "node", "case"), CASES, ids=[case.fault.__name__ for _, _, case in CASES])
def test_a_fault_is_found_and_named(site: Site, told: Told, run: str, node: str, case: Case) -> None:
    found = site.outcome(run)
    assert found.verdict(node, case.check) == case.verdict, alarms(found, node)
    told.run(case.name, case.injected, outcome=found, node=node, check=case.check, words=case.words)


@pytest.mark.parametrize("run", RUNS)
def test_the_healthy_guest_beside_them_is_accepted(site: Site, run: str) -> None:
    assert alarms(site.outcome(run), "gpu-1") == {}
    assert node_verdict(site.outcome(run).of("gpu-1").values()) is NodeVerdict.ACCEPTED


def test_a_guest_that_starts_again_in_mid_run_is_an_error_and_the_others_are_judged(site: Site, told: Told) -> None:
    run, node = RESTARTED
    found = site.outcome(run)
    assert alarms(found, "gpu-1") == {}
    assert {record.verdict.value for record in found.of(node).values()} == {"error"}
    told.run(
        "node starts again in mid-run",
        "QEMU: reset button pressed while the probe runs",
        outcome=found,
        node=node,
        check="node.reachable",
        words="the connection broke",
        since_s=site.restarted_s,
    )
