"""A redacted report names no serial, address or person, and is still a report."""

import dataclasses
import gzip
from pathlib import Path

import pytest
from support import sample_report
from support.sample_report import fleet, gpu

from nodegate.records import part
from nodegate.records.finding import Finding, Record
from nodegate.records.part import NODE
from nodegate.records.run import Drift, NodeReport
from nodegate.records.verdict import NodeVerdict, Verdict
from nodegate.report.model import Report
from nodegate.report.redact import GONE, redact
from nodegate.report.render import render

SERIAL = "1654321012345"


def redacted_message(text: str) -> str:
    record = Record("gpu001", "a.b", Verdict.FAIL, (Finding(NODE, Verdict.FAIL, text=text),))
    node = NodeReport(
        "gpu001", NodeVerdict.REJECTED, serials={"GPU 0": SERIAL, "chassis": "SN 77/12"}, records=(record,)
    )
    [found] = redact(Report(sample_report.run(user="mia", host="deploy01"), (node,))).nodes
    return found.records[0].findings[0].text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"GPU 0 (0000:5d:00.0, serial {SERIAL}): lost", f"GPU 0 (0000:5d:00.0, serial {GONE}): lost"),
        (f"replace {SERIAL}.", f"replace {GONE}."),
        ("chassis SN 77/12 is open", f"chassis {GONE} is open"),
        ("no route to 10.20.0.7:22", f"no route to {GONE}:22"),
        ("fe80::1ff:fe23:4567:890a is down.", f"{GONE} is down."),
        ("mac 0c:42:a1:de:ad:01, guid 0x0c42a10300dead01", f"mac {GONE}, guid {GONE}"),
        ("node guid 0c42:a103:00de:ad01", f"node guid {GONE}"),
        ("GPU-12345678-1234-1234-1234-123456789abc", GONE),
        ("key of mia@deploy01 in /home/mia/.ssh/id_ed25519", f"key of {GONE}@{GONE} in /home/{GONE}/.ssh/id_ed25519"),
    ],
)
def test_what_names_a_machine_or_a_person_goes(text: str, expected: str) -> None:
    assert redacted_message(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "VBIOS 96.00.89.00.01, driver 550.90.07, firmware 28.39.1002",
        "GPU 3 (0000:5d:00.0) and 00000000:1A:00.0",
        "needs root: 12:30:45 load ~500 W, 9.5 °C",
        "link width 8 lanes, expected at least 16 lanes",
    ],
)
def test_what_was_measured_stays(text: str) -> None:
    assert redacted_message(text) == text


def test_no_serial_is_left_in_any_file(tmp_path: Path) -> None:
    original = fleet(8)
    render(redact(original), tmp_path)
    raw = [path.read_bytes() for path in tmp_path.iterdir()]
    everything = b"".join(gzip.decompress(each) if each.startswith(b"\x1f\x8b") else each for each in raw).decode()
    for node in original.nodes:
        assert not [serial for serial in node.serials.values() if serial in everything]
    assert "mia" not in everything
    assert "deploy01" not in everything
    assert "gpu001" in everything


def test_nodes_named_by_address_are_numbered_everywhere() -> None:
    names = ("10.0.0.9", "10.0.0.10")
    found = Finding(part.host("link"), Verdict.FAIL, text="no answer from 10.0.0.9")
    nodes = tuple(
        NodeReport(
            name,
            NodeVerdict.REJECTED,
            records=(Record(name, "a.b", Verdict.FAIL, (found,), evidence=(f"evidence/{name}/facts.json",)),),
        )
        for name in names
    )
    drift = (Drift("p", "driver", "1", 1, 2, {"2": ("10.0.0.10",)}),)
    made = redact(Report(sample_report.run(), nodes, drift))
    assert [node.node for node in made.nodes] == ["node-0001", "node-0002"]
    assert [node.records[0].node for node in made.nodes] == ["node-0001", "node-0002"]
    assert made.nodes[1].records[0].findings[0].message == "link: no answer from node-0001"
    assert made.nodes[1].records[0].evidence == ("evidence/node-0002/facts.json",)
    assert made.drift[0].others == {"2": ("node-0002",)}


def test_parts_stay_told_apart_without_their_serials() -> None:
    """Serial numbers are what parts are known by: without them their places in the node still tell them apart."""
    found = tuple(
        Finding(dataclasses.replace(gpu(index), uuid=f"GPU-{index}"), Verdict.FAIL, code=code, action="replace it")
        for index, code in enumerate(("pending", "no spare rows"))
    )
    node = NodeReport(
        "gpu001",
        NodeVerdict.REJECTED,
        records=(Record("gpu001", "ecc.rows", Verdict.FAIL, found),),
        serials={"x": SERIAL},
    )
    original = Report(sample_report.run(), (node,))
    made = redact(original)
    assert len(made.causes) == len(original.causes) == 2
    assert [cause.part.label for cause in made.causes] == ["GPU 0 (0000:3a:00.0)", "GPU 1 (0000:3b:00.0)"]
    ids = [f"gpu001/0000:3{end}:00.0/ecc.rows/{code}" for end, code in (("a", "pending"), ("b", "no spare rows"))]
    assert [cause.id for cause in made.causes] == ids


def test_the_original_is_left_as_it_was_and_a_second_time_changes_nothing() -> None:
    original = fleet(8)
    copy = dataclasses.replace(original)
    once = redact(original)
    assert original == copy
    assert redact(once) == once


def test_a_long_hostile_text_costs_no_time() -> None:
    assert len(redacted_message("a:" * 200_000)) == 400_000
    assert redacted_message("a-" * 100_000 + "@").startswith("a-")
