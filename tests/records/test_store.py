"""Records as JSON: they come back as they went, and what is not as nodegate writes it is refused."""

import json
import random

import pytest
from support.sample_report import errored, measured, passed
from support.schemas import DOCS, SCHEMAS, written

from nodegate.records.finding import Finding, Limit, LimitKind, Record
from nodegate.records.part import NODE, Kind, Part, gpu, nic, port
from nodegate.records.store import converted, from_bytes, to_bytes
from nodegate.records.verdict import Verdict
from nodegate.unknown import Why

CHANCE = random.Random(1)  # noqa: S311
PORT = port(nic("mlx5_2", address="0000:3a:00.0", netdev="ibs2"), 1)
RECORDS = [
    passed("gpu01", "gpu.count"),
    errored("gpu01", "gpu.xid"),
    measured("gpu02", "pcie.link_width", CHANCE, bad=True, devices=2),
    Record("gpu03", "empty.check", Verdict.SKIP),
    Record(
        "gpu04",
        "of.every_field",
        Verdict.FAIL,
        (
            Finding(
                PORT, Verdict.FAIL, "rate", 1.5, "Gb/s", Limit(2, "Gb/s", "order", "at least", LimitKind.ORDER),
                "text", "note", "action", "code", "metric.key", 0.75, Why.TIMEOUT, "gpu.lost", "nvml", (gpu(1), gpu(2)),
            ),
            Finding(NODE, Verdict.PASS, observed=True, limit=Limit(value=True)),
            Finding(NODE, Verdict.PASS, observed="9.1", limit=Limit(("9.1", "9.2"), kind=LimitKind.BASELINE)),
            Finding(NODE, Verdict.PASS, observed=3, limit=Limit((1, 2.5, 3))),
        ),
        ("F01", "F05"), ("evidence/gpu04/facts.json",), "unknown", "signed", "remark",
    ),
]  # fmt: skip


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.check)
def test_a_record_comes_back_as_it_went(record):
    assert from_bytes(Record, to_bytes(record)) == record


def test_a_line_has_the_keys_of_the_docs():
    line = json.loads(to_bytes(RECORDS[-1]))
    assert list(line) == [
        *("node", "check", "verdict", "findings", "failure_modes", "evidence", "why", "waiver", "remark", "claim")
    ]
    finding = line["findings"][0]
    assert finding["part"] == {
        "kind": "port", "name": "", "index": 1, "pci": "", "serial": "", "uuid": "", "netdev": "", "above": [],
        "of": {
            "kind": "nic", "name": "mlx5_2", "index": None, "pci": "0000:3a:00.0", "serial": "", "uuid": "",
            "netdev": "ibs2", "of": None, "above": [],
        },
    }  # fmt: skip
    assert finding["limit"] == {
        "value": 2, "unit": "Gb/s", "source": "order", "direction": "at least", "kind": "order",
    }  # fmt: skip
    assert (finding["observed"], finding["unit"], finding["why"]) == (1.5, "Gb/s", "timeout")


GOOD = to_bytes(RECORDS[0])
WRONG = {
    "no JSON": b"{",
    "nothing": b"",
    "another kind of value": b"[]",
    "a key is missing": GOOD.replace(b',"remark":""', b""),
    "an unknown key": GOOD[:-1] + b',"more":1}',
    "a key twice": GOOD[:-1] + b',"remark":""}',
    "a key twice, first": b'{"node":"gpu99",' + GOOD[1:],
    "another order": b'{"check":"gpu.count","node":"gpu01"' + GOOD[GOOD.index(b',"verdict"') :],
    "spaces": GOOD.replace(b'":', b'": ', 1),
    "an escape that is not needed": GOOD.replace(b"gpu01", b"gpu\\u0030\\u0031", 1),
    "a number as text": GOOD.replace(b'"evidence":[', b'"evidence":[1,', 1),
    "no verdict": GOOD.replace(b'"verdict":"pass"', b'"verdict":"fine"', 1),
    "a part of a part of a part": to_bytes(RECORDS[-1]).replace(
        b'"of":null,"above":[]}', b'"of":{"kind":"nic","name":"x","index":null,"pci":"","serial":"","uuid":"",'
        b'"netdev":"","of":null,"above":[]},"above":[]}', 1
    ),
    "parts without end": b'{"node":"a","check":"b","verdict":"pass","findings":[{"part":' + b'{"of":' * 100_000,
    "lists without end": b'{"node":"a","check":"b","verdict":"pass","findings":' + b"[" * 100_000,
    "not UTF-8": GOOD.replace(b"gpu01", b"gpu\xff1", 1),
    "half a character": GOOD.replace(b"gpu01", b"\\ud800", 1),
    "a number that is none": to_bytes(RECORDS[2]).replace(b'"observed":16', b'"observed":NaN', 1),
}  # fmt: skip


@pytest.mark.parametrize("raw", WRONG.values(), ids=WRONG)
def test_what_is_not_as_nodegate_writes_it_is_refused(raw):
    with pytest.raises(ValueError, match=r"\w") as caught:
        from_bytes(Record, raw)
    assert len(str(caught.value)) <= 200


def test_a_line_longer_than_any_is_refused():
    with pytest.raises(ValueError, match="longer than"):
        from_bytes(Record, GOOD, most_bytes=100)


def test_text_that_utf8_cannot_hold_is_written_as_it_is_printed():
    odd = Record("gpu01", "a.b", Verdict.ERROR, (Finding(NODE, Verdict.ERROR, text="\ud800 half", observed=1 << 80),))
    [finding] = from_bytes(Record, to_bytes(odd)).findings
    assert finding.text == "\\ud800 half"
    assert finding.observed == str(1 << 80)


def test_plain_values_become_a_record_where_their_types_are_right():
    value = json.loads(GOOD)
    assert converted(Record, value) == RECORDS[0]
    with pytest.raises(ValueError, match="verdict"):
        converted(Record, {**value, "verdict": 5})
    with pytest.raises(ValueError, match="findings"):
        converted(Record, {**value, "findings": None})


def test_a_part_of_a_part_of_a_part_cannot_be_made():
    with pytest.raises(ValueError, match="of a part"):
        Part(Kind.PORT, of=PORT)


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schemas_of_the_docs_are_those_of_the_records(name):
    assert (DOCS / f"{name}.schema.json").read_text(encoding="utf-8") == written(name), "make docs"
