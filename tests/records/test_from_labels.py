"""Evidence of releases before 0.3, whose runs had labels, as it is read today. `labels/` holds what 0.2 wrote."""

import json
from pathlib import Path

import pytest

from nodegate.errors import CannotMeasure
from nodegate.measure import registry
from nodegate.measure.measurement import attempts_of, broke_off
from nodegate.records.plain import to_plain
from nodegate.records.program_run import (
    LaunchNotes,
    LaunchPlan,
    LinkEnd,
    LinkNotes,
    LinkPlan,
    Memory,
    Plan,
    ProgramRun,
    Role,
)
from nodegate.records.program_run import Path as LinkPath

RECORDED = sorted((Path(__file__).parent / "labels").glob("*.json"))
LINK = {"role": "server", "device": "mlx5_0", "peer": "gpu02", "peer_device": "mlx5_1", "round": "again 1.1"}
LINK |= {"memory": "gpu", "path": "inside", "of_another_rail": "yes", "version": "24.10", "program": "server"}
LINK |= {"client_counted": "1 2 3 18446744073709551615", "client_cpus": "0-3", "client_near": "NUMA node 0"}
LINK |= {"server_counted": "", "server_unbound": "no CPU is free", "server_class": "106", "lost": "gpu02"}
LINK |= {"peer_best": "391.5", "peer_best_way": "none", "peer_passed": "yes"}
GROUP = {"group": "rack a1", "kind": "rack", "head": "gpu01", "nodes": "gpu01 gpu02 and 70 more", "count": "72"}
GROUP |= {"good": "gpu02", "gpus": "576", "gpus_of_node": "8", "size_bytes": "1073741824", "turns": "13"}
GROUP |= {"limit_s": "62.5", "builds": "2", "asked": "transports", "nvlink": "one domain", "settings": "NCCL_DEBUG=x"}
GROUP |= {"blamed": "gpu01", "paths": "gpu02", "searched": "one of two", "concerned": "yes", "left_out": "gpu03 gpu04"}
GROUP |= {"racks": "2", "slower": "gpu01", "time_us": "4000"}


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_what_was_recorded_is_read_as_it_would_be_written_today(file):
    found = json.loads(file.read_text())
    attempts = attempts_of(found["then"])
    assert [to_plain(attempt) for attempt in attempts] == found["now"]
    assert attempts_of({"attempts": found["now"]}) == attempts


def test_each_measurement_has_a_recording():
    assert {file.stem for file in RECORDED} == set(registry.MEASURED) - {registry.COUNTERS}


def read(labels, what="x"):
    ((ran,),) = (attempt.runs for attempt in attempts_of({"attempts": [[{"what": what, "labels": labels}]]}))
    return ran


def test_every_label_of_a_link_has_its_field():
    plan = LinkPlan("gpu02", "mlx5_1", Role.SERVER, "mlx5_0", "again 1.1", Memory.GPU, LinkPath.INSIDE, True)
    server = LinkEnd(counted=(), unbound="no CPU is free", traffic_class="106")
    client = LinkEnd(counted=(1, 2, 3, 2**64 - 1), cpus="0-3", near="NUMA node 0")
    notes = LinkNotes(Role.SERVER, server, client, "gpu02", peer_best=391.5, peer_passed=True)
    assert read(LINK) == ProgramRun("x", plan=Plan(version="24.10", link=plan), link=notes)
    assert read(LINK | {"peer_best": "none"}).link.peer_failed


def test_every_label_of_a_launch_has_its_field():
    launch = LaunchPlan(
        "rack a1", "rack", "gpu01", ("gpu01", "gpu02"), 72, ("gpu02",), 8, 13, 2, True, True, "NCCL_DEBUG=x"
    )
    notes = LaunchNotes(("gpu01",), ("gpu02",), "one of two", True, ("gpu03", "gpu04"), 2, "gpu01", 4000)
    plan = Plan(gpus=576, size_bytes=1 << 30, limit_s=62.5, launch=launch)
    assert read(GROUP) == ProgramRun("x", plan=plan, launch=notes)


def test_a_storage_nic_was_a_run_that_never_ran():
    ran = {"what": "", "cannot": "left out", "next_step": "name it", "labels": {"device": "mlx5_7", "left_out": "yes"}}
    (attempt,) = attempts_of({"attempts": [[ran, {"what": "plan", "labels": {"rails": "", "partners": "0"}}]]})
    assert [(rail.device, rail.cannot, rail.by_rule) for rail in attempt.missing] == [("mlx5_7", "left out", True)]
    assert not attempt.began


@pytest.mark.parametrize("text", ["", "x", "-1", "1e9", "9" * 30, "nan", "inf"])
def test_a_label_that_is_no_number_says_nothing(text):
    ran = read({**GROUP, "gpus": text, "limit_s": "nan" if text != "" else ""})
    assert (ran.plan.gpus, ran.plan.limit_s) == (0, None)


@pytest.mark.parametrize(
    "attempts",
    [
        None,
        {},
        [7],
        [[{}]],
        [[{"what": 7}]],
        [[{"what": "x", "argv": "rm -rf"}]],
        [[{"what": "x", "exit_code": True}]],
        [[{"what": "x", "duration_s": float("inf")}]],
        [[{"what": "x", "labels": {"peer": "b", "role": "both"}}]],
        [{"runs": [{"what": "x", "plan": {"gpus": "8"}}]}],
        [{"runs": [{"what": "x", "plan": {"link": {}}}]}],
        [{"runs": [{"what": "x", "more": 1}]}],
        [{"rails": "mlx5_0"}],
    ],
    ids=repr,
)
def test_what_is_no_evidence_is_refused(attempts):
    with pytest.raises(CannotMeasure, match=r"the evidence file is malformed: .* - measure this node again"):
        attempts_of({"attempts": attempts})
    assert broke_off({"attempts": attempts})
