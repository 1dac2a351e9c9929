"""What a node sent is parsed once, however many nodes there are, and what is kept of it judges alike."""

import tracemalloc
from collections.abc import Mapping
from dataclasses import replace

import pytest
from fleet.load.recordings import recordings
from fleet.machine import Machine

from nodegate import suite
from nodegate.baseline.baseline import Baselines
from nodegate.judge.waivers import Waivers
from nodegate.node import Node
from nodegate.probe import nvml
from nodegate.profile import Profile
from nodegate.records.evidence import FACTS, Evidence
from nodegate.records.finding import Finding, Limit, LimitKind, Record
from nodegate.records.part import Kind, Part
from nodegate.records.verdict import Verdict
from nodegate.run import contexts as contexts_module
from nodegate.run import packed_findings
from nodegate.run.judging import Judging
from nodegate.run.packed_findings import PackedFindings, PackedRecords

NODES = 5
Documents = Mapping[tuple[str, str], object]
CHECKS = ("gpu.count", "pcie.link_width", "drift.same_as_fleet", "fabric.one_domain", "copies.link", "counters.ecc")


class _Folder:
    def __init__(self, documents):
        self._documents, self.read = documents, []  # type: ignore[var-annotated]

    def read_evidence(self, node, measurement=FACTS):
        self.read.append((node, measurement))
        document = self._documents.get((node, measurement))
        return Evidence(node, measurement, 0.0, 0.0, document=document) if document else None  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def documents():
    machines = [Machine.hgx_h100(f"gpu{number:03}", number) for number in range(1, NODES + 1)]
    machines[2].set_link(machines[2].gpu_address(5), width=2)
    return {(node, name): each for node, found in recordings(machines).items() for name, each in found.items()}


def judged(documents):
    nodes = {node: Node(node) for node, name in documents if name == FACTS}
    run = Judging(nodes, Profile.DELIVERY, Baselines.read(), Waivers())
    folder = _Folder(documents)
    run.evidence.folder = folder  # type: ignore[assignment]
    checks = [suite.check(name) for name in CHECKS]
    for check in checks:
        for node in nodes:
            run.register.ask(check, node)
    for node in nodes:
        run.judge_node(node)
    return folder, [run.record(check, node) for check in checks for node in nodes]


def test_what_is_kept_judges_as_what_was_read(documents, monkeypatch):
    _, whole = judged(documents)
    monkeypatch.setattr(contexts_module, "MOST_AT_HAND", 1)
    _, packed = judged(documents)
    assert packed == whole
    assert {record.verdict.value for record in whole} >= {"pass", "fail"}


def test_each_node_is_parsed_once(documents, monkeypatch):
    monkeypatch.setattr(contexts_module, "MOST_AT_HAND", 1)
    parsed: list[object] = []
    parse = nvml.parse

    def counted(data):
        parsed.append(data)
        return parse(data)

    monkeypatch.setattr(nvml, "parse", counted)
    folder, _ = judged(documents)
    assert len(parsed) == 2 * NODES  # before the load and after it
    assert sorted(folder.read) == sorted({*folder.read})


# Records whose findings are packed read as the records that came in


def rate(gpu, observed):
    limit = Limit(2800.0, "GB/s", "at least", "baseline", LimitKind.BASELINE)
    part = Part(Kind.GPU, name=f"GPU {gpu}", serial=f"16500000{gpu:05}")
    return Finding(part, Verdict.PASS, quantity="memory read", observed=observed, unit="GB/s", limit=limit)


def record(number, verdict=Verdict.PASS, findings=8):
    found = tuple(replace(rate(gpu, 2900.0 + number + gpu / 7), verdict=verdict) for gpu in range(findings))
    return Record(f"n{number // 50}", f"copies.rate{number % 50}", verdict, found)


ODD = [(Verdict.FAIL, 300), (Verdict.WARN, 1), (Verdict.PASS, 0)]
RECORDS = [
    record(number, *each) for number, each in enumerate([(Verdict.PASS, 8)] * 40 + ODD + [(Verdict.PASS, 1)] * 90)
]


@pytest.mark.parametrize("batch", [1, 7, 250, 10_000])
def test_they_read_as_they_came(monkeypatch, batch):
    monkeypatch.setattr(packed_findings, "BATCH", batch)
    kept = PackedRecords()
    for each in RECORDS:
        kept.append(each)
    assert len(kept) == len(RECORDS)
    assert list(kept) == RECORDS
    assert [each.message for each in kept] == [each.message for each in RECORDS]
    assert [len(each.findings) for each in kept] == [len(each.findings) for each in RECORDS]
    assert {each for each in kept if each.findings} == {each for each in RECORDS if each.findings}


def test_a_finding_is_had_by_its_place():
    kept = PackedRecords()
    for number in range(100):
        kept.append(record(number))
    first = next(iter(kept))
    assert isinstance(first.findings, PackedFindings)
    assert first.findings[-1] == record(0).findings[-1]
    assert first.findings[2:4] == record(0).findings[2:4]
    assert first != record(1)


def test_packed_they_take_a_fifth_of_the_memory():
    def taken(records):
        tracemalloc.start()
        for number in range(400):
            records.append(record(number))
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return size

    assert taken(PackedRecords()) < taken([]) / 5
