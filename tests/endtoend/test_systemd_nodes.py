"""`pytest --inventory hosts.yaml` over nodes that boot a real systemd, each with a fault set from outside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from lab import needs
from lab.nodes import faults, gpus
from lab.nodes.image import image
from lab.nodes.node import LabNode
from lab.nodes.nodes import Nodes, why_not
from lab.nodes.runs import run_with_faults, start
from lab.processes import wait_until
from lab.run import Outcome, Run, words_of
from nodegate.judge.verdict import NodeVerdict, node_verdict

PROBE = "/usr/bin/python3 -I -S -"
KERNEL_LOG = "kernel_log could not be read: denied"


class Case(NamedTuple):
    """A fault, what the node is then, and the checks that say so: their words, beginning with the verdict."""

    fault: faults.Fault
    node: str
    said: dict[str, str]


# Each row is one run: the faults stand on gpu-2, gpu-3 and gpu-4 while gpu-1 is healthy.
RUNS = [
    [
        Case(
            faults.manager_stopped,
            "rejected",
            {"fabric.manager": "fail: service inactive (dead, result success), expected active"},
        ),
        Case(
            faults.manager_killed,
            "rejected",
            {"fabric.manager": "fail: service failed (failed, result signal), expected active"},
        ),
        Case(
            faults.manager_of_another_version,
            "rejected",
            {
                "fabric.version": "fail: version 550.54.15, expected 550.163.01 (the driver's version)",
                "drift.same_as_fleet": "warn: fabric manager version: 550.54.15, 3 of 4 nodes have 550.163.01",
            },
        ),
    ],
    [
        Case(
            faults.manager_not_installed,
            "rejected",
            {
                "fabric.manager": "fail: nvidia-fabricmanager: not installed",
                "fabric.version": "error: version is unknown (missing: nv-fabricmanager: no such program)",
                "drift.same_as_fleet": "warn: fabric manager version: none, 3 of 4 nodes have 550.163.01",
            },
        ),
        Case(
            faults.narrow_link,
            "rejected",
            {"pcie.link_width": "fail: GPU 0000:73:00.0: link width 2 lanes, expected at least 16 lanes"},
        ),
        Case(
            faults.small_shm,
            "rejected",
            {"host.shared_memory": "fail: /dev/shm: size 0.1 GiB, expected at least 64 GiB"},
        ),
    ],
    [
        Case(faults.by_sudo, "accepted", {}),
        Case(
            faults.no_root,
            "incomplete",
            {
                "gpu.fallen_off_bus": f"error: {KERNEL_LOG}",
                "fleet_log.unknown_errors": f"error: {KERNEL_LOG}",
                **{
                    f"host_log.{check}": f"error: {KERNEL_LOG}"
                    for check in ("hardware_errors", "lockups", "hung_tasks", "nvme", "file_systems")
                },
                **{
                    f"kernel_log.{check}": f"error: {KERNEL_LOG}"
                    for check in (
                        "reaches_back",
                        "xid",
                        "sxid",
                        "gpu_driver",
                        "pcie_errors",
                        "pcie_bandwidth",
                        "nic_flaps",
                        "nic_errors",
                        "memory",
                        "storage",
                        "host_faults",
                    )
                },
            },
        ),
        Case(
            faults.few_open_files,
            "rejected",
            {"host.open_files": "fail: login: open files 1024 (hard limit 1024), expected at least 16384"},
        ),
    ],
    [
        Case(faults.sudo_refused, "unreachable", {"node.reachable": "error: gpu-2: sudo wants a password"}),
        Case(faults.no_python, "unreachable", {"node.reachable": "error: gpu-3: /usr/bin/python3 did not start there"}),
        Case(faults.cable_out, "unreachable", {"node.reachable": "error: 192.0.2.4:22 did not answer within 3 s"}),
    ],
    # The last one: what the kernel has said stays in the log.
    [
        Case(
            faults.rail_down,
            "rejected",
            {
                "rdma.rails": "fail: rails in service 7 ports, expected 8",
                "rdma.port_state": "fail: mlx5_2 port 1: DOWN, link Disabled, expected ACTIVE",
            },
        ),
        Case(
            faults.xid,
            "rejected",
            {"kernel_log.xid": "fail: GPU 0000:63:00.0: Xid 48 (uncorrectable memory error) once"},
        ),
        Case(
            faults.gpu_lost,
            "rejected",
            {
                "gpu.lost": "fail: GPU 3 (0000:43:00.0, GPU-3): lost: PCIe configuration space reads all ff",
                "gpu.on_bus": "fail: GPU at 0000:43:00.0: answer on PCIe no, expected yes",
                "gpu.count": "fail: answering 7 GPUs, expected 8 GPUs",
                "pcie.devices_answer": "fail: GPU 0000:43:00.0: does not answer on PCIe",
            },
        ),
    ],
]
CASES = [(run, f"gpu-{place + 2}", case) for run, cases in enumerate(RUNS) for place, case in enumerate(cases)]
# What a check that reads every GPU says of the others is not its own fault: it cannot see the lost one.
CONSEQUENCES = {faults.gpu_lost: "its state is unknown (lost: NVML 15: GPU is lost)"}


class Site:
    """The lab, and the runs over it, each made when it is first asked for. gpu-5 hangs from the start on."""

    def __init__(self, lab: Nodes, folder: Path) -> None:
        self.lab, self._folder = lab, folder
        self._outcomes: dict[int, Outcome] = {}
        self._runs = 0

    def outcome(self, run: int) -> Outcome:
        """What a run of `RUNS` said."""
        if run not in self._outcomes:
            broken = {f"gpu-{place + 2}": case.fault for place, case in enumerate(RUNS[run])}
            found = run_with_faults(self.lab, self._fresh(), {"gpu-1": faults.nothing, **broken})
            assert found.folder.exists(), found.output
            self._outcomes[run] = found
        return self._outcomes[run]

    def start(self, *nodes: LabNode, profile: str = "delivery") -> Run:
        """One more run."""
        return start(self.lab, self._fresh(), nodes, "--profile", profile)

    def _fresh(self) -> Path:
        self._runs += 1
        return self._folder / f"run{self._runs}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    needs.require(why_not())
    folder = tmp_path_factory.mktemp("lab")
    with Nodes(image(), 5, folder, gpus.prepare) as lab:
        yield Site(lab, folder)


@pytest.fixture(scope="module")
def hung(site: Site) -> Iterator[LabNode]:
    """gpu-5, where reading the temperature of GPU 2 never returns."""
    node = site.lab.nodes[4]
    with faults.nvml_hangs(node):
        yield node


@pytest.fixture(scope="module")
def hung_run(site: Site, hung: LabNode) -> Run:
    """A run over the hung node; it takes as long as NVML's time limit, and the others go on beside it."""
    run = site.start(hung)
    assert wait_until(lambda: PROBE in logins(hung), limit_s=20), run.outcome().output
    return run


def test_another_run_at_night_finds_the_node_busy_and_leaves_it_alone(site: Site, hung: LabNode, hung_run: Run) -> None:
    second = site.start(hung, profile="nightly").outcome()
    assert hung_run.process.poll() is None, "the first run ended before the second"
    assert second.exit_code == 5
    assert {record.verdict.value for record in second.records} == {"skip"}
    assert "busy: another run holds the node's lock" in second.records[0].message


@pytest.mark.parametrize("run", range(len(RUNS)))
def test_the_healthy_node_is_accepted_beside_faulty_ones(site: Site, run: int) -> None:
    records = site.outcome(run).of("gpu-1")
    bad = {check: words_of(record) for check, record in records.items() if record.verdict.value not in ("pass", "skip")}
    assert bad == {}
    assert node_verdict(records.values()) is NodeVerdict.ACCEPTED


@pytest.mark.parametrize(("run", "node", "case"), CASES, ids=[case.fault.__name__ for _, _, case in CASES])
def test_a_fault_is_found_named_and_blamed_on_its_node_alone(site: Site, run: int, node: str, case: Case) -> None:
    outcome = site.outcome(run)
    records = outcome.of(node)
    for check, said in case.said.items():
        verdict, _, words = said.partition(": ")
        assert records[check].verdict.value == verdict, words_of(records[check])
        assert words in words_of(records[check])
    assert f"{case.node} " in next(line for line in outcome.output.splitlines() if line.startswith(case.node))
    if case.node == "unreachable":
        assert {record.verdict.value for record in records.values()} == {"error"}
        assert outcome.output.count(f"  unreachable: {node}: ") == 1
        return
    others = {
        check: words_of(record)
        for check, record in records.items()
        if check not in case.said and record.verdict.value not in ("pass", "skip")
    }
    consequence = CONSEQUENCES.get(case.fault)
    assert {check: said for check, said in others.items() if not (consequence and consequence in said)} == {}


def test_a_hang_in_nvml_loses_what_comes_after_it_and_nothing_else(hung_run: Run) -> None:
    records = hung_run.outcome().of("gpu-5")
    lost = records["gpu.lost"]
    assert lost.verdict.value == "error"
    assert "no answer within 20 s, at GPU 2 temperature_c" in words_of(lost)
    answered = {finding.subject[:5] for finding in lost.findings if finding.verdict.value == "pass"}
    assert answered == {"GPU 0", "GPU 1", "GPU 2"}
    assert records["gpu.count"].verdict.value == "error"
    for check in (
        "gpu.on_bus",
        "pcie.link_width",
        "fabric.manager",
        "rdma.port_state",
        "kernel_log.xid",
        "host.open_files",
    ):
        assert records[check].verdict.value == "pass", words_of(records[check])
    assert node_verdict(records.values()) is NodeVerdict.INCOMPLETE


def test_kill_9_while_nvml_hangs_leaves_nothing_on_the_node_and_its_lock_free(
    site: Site, hung: LabNode, hung_run: Run
) -> None:
    hung_run.outcome()
    assert wait_until(lambda: not logins(hung))
    run = site.start(hung)
    assert wait_until(lambda: PROBE in logins(hung) or run.process.poll() is not None, limit_s=20)
    assert run.process.poll() is None, run.outcome().output
    run.kill()
    assert wait_until(lambda: not logins(hung), limit_s=5), logins(hung)
    gpus.scenario(hung).write(hung.root / gpus.SCENARIO)
    again = site.start(hung, profile="nightly").outcome()
    assert again.exit_code == 0, again.output


def logins(node: LabNode) -> list[str]:
    """The command lines of our logins on the node and of what runs below them: it has no other Python."""
    return [args for args in node.processes().values() if "python3" in args or args.startswith("sshd: root")]
