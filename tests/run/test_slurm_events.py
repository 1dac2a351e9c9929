"""What Slurm did with nodes between runs, as events of the record. What its programs print here, 22.05 printed."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from support.recorded import run_pytest
from support.remembered import keep, placed

from nodegate import cli
from nodegate.node import Connection, Node
from nodegate.past import database, events
from nodegate.past.event import HOOK, Event
from nodegate.past.record import FleetRecord
from nodegate.run import slurm_events
from nodegate.run.contexts import NodeSummary

SACCTMGR = """\
lab|2026-11-28T01:17:41|Unknown||Cluster Registered TRES
gpu01|2026-11-28T01:17:43|2026-11-28T01:17:44|DRAIN|bad|cable, GPU 3
gpu01|2026-11-28T01:17:45|2026-11-28T01:17:46|DRAIN|nodegate: GPU 3: lost (Xid 79)
gpu01|2026-11-28T01:17:48|2026-11-28T01:17:49|DOWN|psu swap
other|2026-11-28T01:17:48|2026-11-28T01:17:49|DOWN|psu swap
gpu01|2026-11-28T01:17:50|Unknown|DRAIN|still out
"""
NO_DATABASE = (
    "You are not running a supported accounting_storage plugin\nOnly 'accounting_storage/slurmdbd' is supported."
)
SCONTROL = """\
NodeName=gpu01 Arch=x86_64 CoresPerSocket=8
   State=IDLE+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=gpu
   Reason=still out [root@2026-11-28T01:17:50]

NodeName=gpu02 Arch=x86_64 CoresPerSocket=8
   State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=gpu
   Reason=from before [root@2026-11-28T01:17:16]
"""
AT = 1795828663.0  # 2026-11-28T01:17:43 UTC
NODES = {"gpu01.site": Node("gpu01.site", expected={"hold": "slurm"}), "gpu02": Node("gpu02")}
NEWEST = Event(AT + 7, "drain", "gpu01.site", "S/N C1", "Slurm", "still out")
ALL = [
    Event(AT, "drain", "gpu01.site", "S/N C1", "Slurm", "bad|cable, GPU 3"),
    Event(AT + 1, "in_service", "gpu01.site", "S/N C1", "Slurm", "bad|cable, GPU 3"),
    Event(AT + 2, "drain", "gpu01.site", "S/N C1", "Slurm", "nodegate: GPU 3: lost (Xid 79)"),
    Event(AT + 3, "in_service", "gpu01.site", "S/N C1", "Slurm", "nodegate: GPU 3: lost (Xid 79)"),
    Event(AT + 5, "down", "gpu01.site", "S/N C1", "Slurm", "psu swap"),
    Event(AT + 6, "in_service", "gpu01.site", "S/N C1", "Slurm", "psu swap"),
    NEWEST,
]

Programs = Callable[..., None]


@pytest.fixture
def programs(tmp_path, monkeypatch):
    def make(**printed):
        monkeypatch.setenv("PATH", str(tmp_path))
        for name, (code, text) in printed.items():
            program, said = tmp_path / name, tmp_path / f"{name}.out"
            said.write_text(text)
            stream = ">&2" if code else ""
            read = f"while IFS= read -r line; do echo \"$line\" {stream}; done <'{said}'"
            program.write_text(f"#!/bin/sh\necho \"$TZ $*\" >'{tmp_path}/asked'\n{read}\nexit {code}\n")
            program.chmod(0o755)

    return make


def summary(**more):
    return NodeSummary("", {}, {}, "", placed=placed(chassis="C1"), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("printed", "found", "why"),
    [
        ({"sacctmgr": (0, SACCTMGR), "scontrol": (0, SCONTROL)}, ALL, ""),
        ({"sacctmgr": (0, "")}, [], ""),
        ({"sacctmgr": (1, NO_DATABASE), "scontrol": (0, SCONTROL)}, [NEWEST], ""),
        ({"scontrol": (0, SCONTROL)}, [NEWEST], ""),
        (
            {"sacctmgr": (1, NO_DATABASE), "scontrol": (1, "Unable to contact slurm controller\n")},
            [],
            "Unable to contact",
        ),
        ({}, [], ""),
    ],
)
def test_slurmdbd_has_all_and_the_controller_what_is_out_now(programs, printed, found, why):
    programs(**printed)
    by_node, said = slurm_events.events(NODES, {"gpu01.site": summary(), "gpu02": None})
    assert by_node == ({"gpu01.site": found} if found else {})
    assert why in said
    assert bool(why) == bool(said)


@pytest.mark.parametrize(
    ("node", "of_it", "is_asked"),
    [
        (NODES["gpu01.site"], None, True),
        (Node("gpu01", expected={"slurm_name": "gpu01"}), None, True),
        (Node("gpu01"), summary(events=(Event(1.0, HOOK, "gpu01", "", "", "slurm-prolog: unfit"),)), True),
        (Node("gpu01"), summary(), False),  # of which Slurm knows nothing, or another node of that name
        (Node("gpu01", Connection(transport="replay"), expected={"hold": "slurm"}), None, False),
    ],
)
def test_only_nodes_of_slurm_are_asked_for(programs, tmp_path, node, of_it, is_asked):
    programs(sacctmgr=(0, SACCTMGR))
    by_node, _ = slurm_events.events({node.name: node}, {node.name: of_it})
    assert bool(by_node) == is_asked == (tmp_path / "asked").exists()
    if is_asked:
        assert (tmp_path / "asked").read_text().startswith("UTC0 -nP show event ")
        assert "nodes=gpu01\n" in (tmp_path / "asked").read_text()


@pytest.mark.parametrize(
    "line", ["", "gpu01|soon|Unknown|DRAIN|x", "gpu01|2026-11-28T01:17:43|Unknown|IDLE|x", "|" * 9]
)
def test_a_line_that_says_nothing_of_the_kind_is_left_out(line):
    assert list(slurm_events.parse(line)) == []


def test_the_record_has_each_once_also_of_an_unreached_node(tmp_path, capsys):
    record = FleetRecord(tmp_path / "fleet.sqlite")
    unreached = Event(AT + 8, NEWEST.kind, NEWEST.node, "node gpu01.site", NEWEST.source, NEWEST.text)
    for run, of_slurm in enumerate(([unreached], ALL, ALL)):
        keep(record, f"run {run}", AT + 100 + run, {"gpu01.site": []}, events=of_slurm)
    asked = "select kind, text from events order by epoch_s"
    with database.reading(record.file) as base:
        kept = base.execute(asked).fetchall()
    assert kept == [(each.kind, each.text) for each in ALL]
    assert cli.main(["history", "gpu01.site", "--record", str(record.file)]) == 0
    said = capsys.readouterr().out
    assert "2026-11-28: drained in Slurm: nodegate: GPU 3: lost (Xid 79)" in said
    assert "2026-11-28: in service again, was out for: psu swap" in said
    record.file.unlink()
    with database.writing(record.file) as base:
        events.keep(base, (each for each in events.read(record.file) if isinstance(each, Event)))
        assert base.execute(asked).fetchall() == kept


def test_a_run_keeps_them_and_says_what_the_hooks_spool_does_not_have(programs, tmp_path, monkeypatch, capsys):
    usual = os.environ["PATH"]
    programs(sacctmgr=(0, SACCTMGR))
    monkeypatch.setenv("PATH", f"{tmp_path}:{usual}")
    spool = tmp_path / "tree/var/lib/nodegate/spool.jsonl"
    spool.parent.mkdir(parents=True)
    spool.write_text('{"schema": "nodegate.spool/1", "dropped": 7}\n?\n')
    hosts = "all: {hosts: {gpu01.site: {ansible_connection: local, nodegate_slurm_name: gpu01}}}\n"
    (tmp_path / "hosts.yaml").write_text(hosts)
    asked = ["--inventory", "hosts.yaml", "--passive", "-k", "software", "-p", "no:cacheprovider"]
    run = run_pytest(tmp_path, asked, NODEGATE_PROBE_ROOT=str(tmp_path / "tree"))
    assert "not all that the hooks noted was there and could be read, on gpu01.site" in run.stdout, run.stdout
    assert cli.main(["history", "gpu01.site", "--record", str(tmp_path / "reports/fleet.sqlite")]) == 0
    said = capsys.readouterr().out
    assert "drained in Slurm: nodegate: GPU 3: lost (Xid 79)" in said
    assert "had dropped 7 verdicts" in said
    assert "of what hooks noted 1 lines could not be read" in said
