"""`pytest --inventory hosts.yaml` over nodes that boot a real systemd, each with a fault set from outside.

The faults and what must be said of them stand in node_cases.py.
"""

from contextlib import ExitStack

import pytest
from endtoend.node_cases import BUSY, RUNS, on

from lab import needs
from lab.nodes import faults, gpu_faults, gpus
from lab.nodes.image import image
from lab.nodes.nodes import Nodes, why_not
from lab.nodes.runs import run_with_faults, start
from lab.processes import wait_until
from lab.run import Outcome, words_of
from nodegate.claims.verdict import node_verdict
from nodegate.inventory.hostlist import expand
from nodegate.records.verdict import NodeVerdict

PROBE = "/usr/bin/python3 -I -S -"
CASES = [(run, f"gpu-{place + 2}", case) for run, cases in enumerate(RUNS) for place, case in enumerate(cases)]
NODES = 10  # a healthy one, seven with the faults of a run, and two that hang beside them


class Site:
    """The lab, and the runs over it, each made when it is first asked for."""

    def __init__(self, lab, folder):
        self.lab, self._folder = lab, folder
        self._outcomes: dict[int, Outcome] = {}
        self._runs = 0

    def outcome(self, run):
        if run not in self._outcomes:
            broken = {f"gpu-{place + 2}": case.fault for place, case in enumerate(RUNS[run])}
            found = run_with_faults(self.lab, self.fresh(), {"gpu-1": faults.nothing, **broken})
            assert found.folder.exists(), found.output
            self._outcomes[run] = found
        return self._outcomes[run]

    def start(self, *nodes, profile="delivery"):
        return start(self.lab, self.fresh(), nodes, "--profile", profile)

    def fresh(self):
        self._runs += 1
        return self._folder / f"run{self._runs}"


NOT_BAD = ("pass", "skip", "not-judged")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    needs.require(why_not())
    folder = tmp_path_factory.mktemp("lab")
    with Nodes(image(), NODES, folder, gpus.prepare) as lab:
        yield Site(lab, folder)


@pytest.fixture(scope="module")
def hung(site):
    """gpu-9, where reading the temperature of GPU 2 never returns; beside gpu-10, where nvidia-smi does not."""
    with faults.nvml_hangs(site.lab.nodes[8]), gpu_faults.smi_hangs(site.lab.nodes[9]):
        yield site.lab.nodes[8]


@pytest.fixture(scope="module")
def hung_run(site, hung):
    """A run over both; it takes as long as NVML's time limit, and the others go on beside it."""
    run = site.start(hung, site.lab.nodes[9])
    assert wait_until(lambda: PROBE in logins(hung), limit_s=120), run.outcome().output
    return run


@pytest.fixture(scope="module")
def night(site, hung_run):
    """A run at night over a healthy node, two with a job, and one that another run holds."""
    one, two, three = site.lab.nodes[:3]
    with ExitStack() as broken:
        broken.enter_context(gpu_faults.job_left(two))
        broken.enter_context(gpu_faults.job_while_the_driver_was_updated(three))
        return site.start(one, two, three, site.lab.nodes[8], profile="nightly").outcome()


@pytest.mark.parametrize("case", BUSY, ids=[case.node for case in BUSY])
def test_a_busy_node_is_left_alone_at_night(night, told, case):
    assert {record.verdict.value for record in night.of(case.node).values()} == {"skip"}
    told.run(case.told, case.injected, outcome=night, node=case.node, check="gpu.lost", words=case.words)


def test_a_healthy_node_is_judged_at_night_beside_busy_ones(night):
    assert node_verdict(night.of("gpu-1").values()) is NodeVerdict.ACCEPTED


@pytest.mark.parametrize("run", range(len(RUNS)))
def test_the_healthy_node_is_accepted_beside_faulty_ones(site, run):
    records = site.outcome(run).of("gpu-1")
    bad = {check: words_of(record) for check, record in records.items() if record.verdict.value not in NOT_BAD}
    assert bad == {}
    assert node_verdict(records.values()) is NodeVerdict.ACCEPTED


@pytest.mark.parametrize(("run", "node", "case"), CASES, ids=[case.fault.__name__ for _, _, case in CASES])
def test_a_fault_is_found_named_and_blamed_on_its_node_alone(site, told, run, node, case):
    outcome = site.outcome(run)
    records = outcome.of(node)
    wrong = {}
    for check, said in case.said.items():
        verdict, _, words = on(node, said).partition(": ")
        if records[check].verdict.value != verdict or words not in words_of(records[check]):
            wrong[check] = (records[check].verdict.value, words_of(records[check]))
    assert wrong == {}
    check, said = next(iter(case.said.items()))
    told.run(case.told, case.injected, outcome=outcome, node=node, check=check, words=on(node, said).partition(": ")[2])
    listed = [line.removeprefix(f"{case.node}: ") for line in outcome.output.splitlines()]
    assert case.node.startswith("accepted") or any(node in expand(line) for line in listed if line.startswith("gpu-"))
    if case.node == "unreachable":
        assert {record.verdict.value for record in records.values()} == {"error"}
        assert len([line for line in outcome.output.splitlines() if f"  {node}  " in line]) == 1
        return
    assert node_verdict(records.values()).value == case.node
    others = {
        check: words_of(record)
        for check, record in records.items()
        if check not in case.said and record.verdict.value not in NOT_BAD
    }
    assert {check: said for check, said in others.items() if not (case.follows and case.follows in said)} == {}


def test_a_hang_in_nvml_loses_what_comes_after_it_and_nothing_else(hung_run, told):
    outcome = hung_run.outcome()
    records = outcome.of("gpu-9")
    lost = records["gpu.lost"]
    assert lost.verdict.value == "error"
    told.run(
        "NVML hangs",
        "NVML: the temperature of GPU 2 never comes (mock)",
        outcome=outcome,
        node="gpu-9",
        check="gpu.lost",
        words="no answer within 60 s, at GPU 2 temperature_c",
    )
    good = [finding for finding in lost.findings if finding.verdict.value == "pass"]
    answered = {part.index for finding in good for part in finding.parts}
    assert answered == {0, 1, 2}
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


def test_an_nvidia_smi_that_hangs_where_nvml_broke_leaves_the_gpus_unknown(hung_run, told):
    outcome = hung_run.outcome()
    assert outcome.verdict("gpu-10", "gpu.lost") == "error"
    told.run(
        "nvidia-smi hangs, and NVML dies of a signal",
        "NVML: SIGSEGV in a call, another never returns (mock)",
        outcome=outcome,
        node="gpu-10",
        check="gpu.lost",
        words="nvidia_smi could not be read: timeout: nvidia-smi: not finished within",
    )
    assert outcome.verdict("gpu-10", "rdma.port_state") == "pass"
    assert node_verdict(outcome.of("gpu-10").values()) is NodeVerdict.INCOMPLETE


def test_kill_9_while_nvml_hangs_leaves_nothing_on_the_node_and_its_lock_free(site, hung, hung_run):
    hung_run.outcome()
    assert wait_until(lambda: not logins(hung))
    run = site.start(hung)
    assert wait_until(lambda: PROBE in logins(hung) or run.process.poll() is not None, limit_s=120)
    assert run.process.poll() is None, run.outcome().output
    run.kill()
    assert wait_until(lambda: not logins(hung), limit_s=30), logins(hung)
    gpus.scenario(hung).write(hung.root / gpus.SCENARIO)
    again = site.start(hung, profile="nightly").outcome()
    assert node_verdict(again.of(hung.name).values()) is NodeVerdict.ACCEPTED, again.output


def logins(node):
    """The command lines of our logins on the node and of what runs below them: it has no other Python."""
    return [args for args in node.processes().values() if "python3" in args or args.startswith("sshd: root")]
