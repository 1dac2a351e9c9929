"""NCCL inside a node: the launches as real processes under the guard, and what their evidence says."""

import contextlib
import json
import os
from functools import partial

import pytest
from fleet.machine import Machine, facts_of
from support import nccl as fake
from support.attempts import attempts
from support.rdma_fleet import Crew
from support.sshd import NODE_PYTHON
from support.tool_folder import ToolFolder

from lab.processes import naming
from nodegate.errors import CannotMeasure, Unreachable
from nodegate.measure.durations import OF_PROFILE, Durations
from nodegate.measure.measurement import Inapplicable, Target, document
from nodegate.measure.nccl import run as nccl
from nodegate.measure.nccl.launches import LAUNCHES
from nodegate.measure.nccl.result import parse
from nodegate.measure.program_run import not_begun
from nodegate.node import Connection, Node
from nodegate.profile import Profile
from nodegate.records.finding import OWN_WORD
from nodegate.records.program_run import Plan, ProgramRun
from nodegate.tools import nccl_tests
from nodegate.transport import Options, connect
from nodegate.unknown import Unknown

GIB = 1 << 30
WHATS = [launch.what for launch in LAUNCHES]
SHORT = Durations(burn_s=1.0, copies_s=1.0, link_s=1.0, collective_s=20.0, group_s=1.0)
HERE = Node("here", Connection(transport="local", python=NODE_PYTHON))
HANGING = Durations(burn_s=1.0, copies_s=1.0, link_s=1.0, collective_s=12.0, group_s=1.0)


def run_here(
    folder,
    durations=SHORT,
    machine=None,
    *,
    node=HERE,
    tools=ToolFolder,
    through=lambda session: session,
    cancelled=False,
):
    """The launches on a node, with the tools of a folder."""
    pool = Crew()
    pool.cancelled = cancelled
    with contextlib.closing(connect(node, Options())) as session:
        target = Target(node, through(session), facts_of(machine or Machine.hgx_h100()), tools(folder), durations)
        return nccl.NCCL.measure([target], pool)[node.name].runs


LAST_SIZE = "; the last size that it finished is 536870912 bytes"


def replayed(rans):
    """Through the evidence file and back, as a run does it."""
    return nccl.NCCL.of_document(json.loads(json.dumps(document("nccl", attempts([rans])))))


def test_every_collective_is_run_once_over_all_gpus_and_measured(tmp_path):
    rans = run_here(fake.install(tmp_path / "tools"))
    assert [ran.what for ran in rans] == WHATS
    found = replayed(rans)
    assert len({metric.name for metric in found.metrics}) == len(WHATS)
    assert found.metrics[0].values == (476.35,)
    assert found.version == "2.27.3"
    assert found.over_ring == pytest.approx(1.295, abs=0.001)


def test_a_container_gets_the_settings_behind_its_start(tmp_path):
    rans = run_here(
        fake.install(tmp_path / "tools", suffix="_perf_mpi"), tools=partial(ToolFolder, start=("nice", "-n", "1"))
    )
    assert rans[0].argv[:4] == ("nice", "-n", "1", "env")
    assert {outcome.ending for outcome in replayed(rans).all} == {"whole"}


def test_what_we_set_stands_in_the_command_and_nothing_of_the_login(tmp_path, monkeypatch):
    monkeypatch.setenv("NCCL_ALGO", "Ring")  # a stale setting of the login, and a choice of GPUs
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("A_SECRET", "do-not-keep-me")
    rans = run_here(fake.install(tmp_path / "tools"))
    ring = next(ran for ran in rans if ran.what == "all_reduce ring")
    assert {"NCCL_ALGO=Ring", "NCCL_NVLS_ENABLE=0", "NCCL_DEBUG=WARN"} <= set(ring.argv)
    assert "NCCL_ALGO=Ring" not in rans[0].argv
    assert rans[0].argv[rans[0].argv.index("CUDA_VISIBLE_DEVICES") - 1] == "-u"
    assert replayed(rans).over_ring == pytest.approx(1.295, abs=0.001)
    assert "do-not-keep-me" not in json.dumps(document("nccl", attempts([rans])))


@pytest.mark.long
def test_a_hung_all_reduce_is_killed_and_ring_tells_that_it_is_nvls(tmp_path):
    tools = fake.install(tmp_path / "tools", faults={"all_reduce": "hang"})
    rans = run_here(tools, HANGING)
    assert [ran.timed_out for ran in rans[:2]] == [True, False]
    assert all("not run: all_reduce did not end within 12 s before" in ran.cannot for ran in rans[2:])
    found = replayed(rans)
    assert (found.final("all_reduce").ending, found.final("all_reduce ring").ending) == ("hung", "whole")
    assert naming(tools) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("told", "endings", "why"),
    [
        ({"faults": {"*": "hang"}}, ["hung"] * 2 + ["incomplete"] * 4, ", and finished no size"),
        ({"faults": {"all_gather": "stall"}}, ["whole", "whole", "hung", *["incomplete"] * 3], LAST_SIZE),
        (
            {"faults": {"all_reduce": "crawl"}, "busbw": 0.5},
            ["slow", "whole", *["incomplete"] * 4],
            f"{LAST_SIZE}: at 0.5 GB/s it needs more time than the limit",
        ),
    ],
    ids=["the second hang", "any other at once", "what is only slow too"],
)
def test_a_hang_ends_the_launches(tmp_path, told, endings, why):
    found = replayed(run_here(fake.install(tmp_path / "tools", **told), HANGING)).all
    assert [outcome.ending for outcome in found] == endings
    said = next(outcome.why for outcome in found if outcome.ending in {"hung", "slow"})
    assert said == f"did not end within 12 s{why}"


def test_an_end_of_the_run_starts_nothing_more(tmp_path):
    rans = run_here(fake.install(tmp_path / "tools"), cancelled=True)
    assert {ran.cannot for ran in rans} == {"the run was ended"}


def test_a_broken_connection_keeps_what_ran_before(tmp_path):
    class Breaks:
        def __init__(self, session):
            self.session, self.calls = session, 0

        def run(self, *args, **named):
            self.calls += 1
            if self.calls == 3:
                raise Unreachable("dropped", "the connection broke", next_step="see sshd")
            return self.session.run(*args, **named)

    rans = run_here(fake.install(tmp_path / "tools"), through=Breaks)
    assert [bool(ran.cannot) for ran in rans] == [False, False, True, True, True, True]
    assert rans[2].cannot == rans[5].cannot == "the connection broke"


@pytest.mark.parametrize(
    ("fault", "ending", "why"),
    [
        ("cuda", "faulty", "uncorrectable ECC error encountered"),
        ("crash", "incomplete", "no row of 1073741824 bytes; no line 'Out of bounds values'; no line 'Avg bus"),
        ("empty", "incomplete", "the output of nccl-tests is empty"),
        ("warned", "whole", ""),
    ],
)
def test_what_a_fault_leaves_is_named(fault, ending, why):
    found = replayed([fake.ran(what, faults={"*": fault}) for what in WHATS])
    assert {outcome.ending for outcome in found.all} == {ending}
    assert found.final("sendrecv").why.startswith(why)
    assert bool(found.metrics) == (ending == "whole")


def test_some_missing_tools_cost_their_collectives_only(tmp_path):
    tools = fake.install(tmp_path / "tools")
    (tools / "sendrecv_perf").unlink()
    found = replayed(run_here(tools))
    assert found.final("sendrecv").why == "no sendrecv_perf on the node"
    assert len(found.metrics) == len(LAUNCHES) - 1


def test_a_program_that_cannot_start_is_said(tmp_path):
    tools = fake.install(tmp_path / "tools")
    os.chmod(tools / "sendrecv_perf", 0o644)  # noqa: PTH101
    found = replayed(run_here(tools)).final("sendrecv")
    assert (found.ending, "sendrecv_perf" in found.why) == ("incomplete", True)


def test_sizes_by_profile_and_by_what_links_the_gpus():
    def judged(profile, *, nvlink):
        return nccl.sweep(OF_PROFILE[profile], nvlink=nvlink).judged_bytes

    assert judged(Profile.DELIVERY, nvlink=True) == 8 * GIB
    assert judged(Profile.NIGHTLY, nvlink=True) == judged(Profile.BOOTCHECK, nvlink=True) == GIB
    assert judged(Profile.DELIVERY, nvlink=False) == GIB // 2
    assert nccl.links(facts_of(Machine.hgx_h100())) == "switched"
    assert nccl.links(facts_of(Machine.pcie_l40s())) == "none"
    assert nccl.links(facts_of(with_links(("state", 0), range(7)))) == "switched", "some that are down change nothing"
    assert nccl.links(facts_of(with_links(("state", 0)))) == "none", "all are down: a card without a bridge"


def with_links(change, gpus=range(8)):
    """An HGX node with its NVLinks changed: (key, value) of each link of these GPUs."""
    machine = Machine.hgx_h100()
    for gpu in gpus:
        for link in range(18):
            machine.set_nvlink(gpu, link, *change)
    return machine


@pytest.mark.parametrize(
    ("busbw", "least", "judged"),
    [
        (200.0, 512 << 20, 1 << 30),  # four GPUs joined directly
        (5.0, 64 << 20, 128 << 20),  # pairs with bridges: between them it goes by PCIe
    ],
)
def test_the_sizes_of_bridged_cards_are_chosen_by_the_speed_of_the_first(tmp_path, busbw, least, judged):
    bridged = with_links(("remote_type", 1))
    rans = run_here(fake.install(tmp_path / "tools", busbw=busbw), machine=bridged)
    assert [ran.what for ran in rans] == ["first size", *WHATS]
    assert {ran.plan.size_bytes for ran in rans[1:]} == {judged}
    assert {ran.argv[ran.argv.index("-b") + 1] for ran in rans[1:]} == {str(least)}
    assert {outcome.ending for outcome in replayed(rans).all} == {"whole"}


def test_where_the_first_size_gives_nothing_the_launches_themselves_say_why(tmp_path):
    bridged = with_links(("remote_type", 1))
    rans = run_here(fake.install(tmp_path / "tools", faults={"*": "empty"}), machine=bridged)
    assert {ran.plan.size_bytes for ran in rans[1:]} == {128 << 20}
    assert {outcome.ending for outcome in replayed(rans).all} == {"incomplete"}
    missing = run_here(tmp_path, machine=bridged)
    assert [ran.what for ran in missing] == WHATS


@pytest.mark.parametrize("profile", [Profile.DELIVERY, Profile.NIGHTLY, Profile.BOOTCHECK])
@pytest.mark.parametrize("speed", [0.2, 0.6, 1.3, 3.0, 5.0, 8.0, 12.0, 40.0, 300.0])
def test_what_is_chosen_is_far_from_the_time_limit(profile, speed):
    durations = OF_PROFILE[profile]
    row = next(row for row in a_table(speed) if row.size_bytes == 64 << 20)
    chosen = nccl.bounded(durations, row)
    assert chosen == nccl.FIRST or chosen.needed_s(speed) <= durations.collective_s / 3


def a_table(algbw):
    """The rows of a launch with this bandwidth at 64 MiB."""
    text, _, _ = fake.output("all_reduce", {"busbw": algbw * 1.75}, "-b 64M -e 64M -f 2 -n 10 -w 2 -g 8")
    return nccl_tests.parse(text).rows


def test_a_node_with_one_gpu_has_no_collective():
    machine = Machine.hgx_h100()
    for _ in range(7):
        machine.remove_gpu(0)
    assert nccl.NCCL.applies(facts_of(machine)) == Inapplicable("1 GPU: a collective needs two", witness=OWN_WORD)
    machine.remove_gpu(0)
    assert nccl.NCCL.applies(facts_of(machine)) == Inapplicable("no GPUs: a collective needs two")
    assert nccl.NCCL.applies(facts_of(Machine.hgx_h100())) is None


def test_gpus_that_cannot_be_counted_are_an_error_and_no_skip(tmp_path):
    machine = Machine.hgx_h100()
    machine.section_fails("nvml", "timeout", "10 s")
    machine.section_fails("nvidia_smi", "timeout", "10 s")
    assert nccl.NCCL.applies(facts_of(machine)) is None
    with pytest.raises(CannotMeasure, match="nvml could not be read"):
        replayed(run_here(fake.install(tmp_path / "tools"), machine=machine))


def test_a_launch_that_left_nothing_is_not_forgotten():
    found = parse(attempts([[fake.ran("all_reduce")]]))
    assert [outcome.why for outcome in found.all[1:]] == ["not run"] * 5
    assert isinstance(found.over_ring, Unknown)


def test_an_attempt_that_could_not_be_made_says_so_for_each_launch():
    lost = not_begun(CannotMeasure("the connection broke", next_step="see sshd"))
    found = parse(attempts([[fake.ran(what) for what in WHATS], lost]))
    assert {outcome.why for outcome in found.attempts[1]} == {"the connection broke"}
    with pytest.raises(CannotMeasure, match="the connection broke"):
        parse([lost])
    with pytest.raises(CannotMeasure, match="nothing was run"):
        parse([])


@pytest.mark.parametrize("plan", [Plan(), Plan(gpus=-8, size_bytes=-1, limit_s=9e15)])
def test_evidence_without_its_plan_is_incomplete(plan):
    good = fake.ran("all_reduce")
    found = parse(attempts([[ProgramRun("all_reduce", argv=good.argv, stdout=good.stdout, exit_code=0, plan=plan)]]))
    assert found.final("all_reduce").ending == "incomplete"
