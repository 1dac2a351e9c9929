"""Records whose findings are packed read as the records that came in."""

import tracemalloc
from dataclasses import replace

import pytest

from nodegate.records.finding import Finding, Limit, LimitKind, Record
from nodegate.records.part import Kind, Part
from nodegate.records.verdict import Verdict
from nodegate.run import packed_findings
from nodegate.run.packed_findings import PackedFindings, PackedRecords


def rate(gpu: int, observed: float) -> Finding:
    limit = Limit(2800.0, "GB/s", "at least", "baseline", LimitKind.BASELINE)
    part = Part(Kind.GPU, name=f"GPU {gpu}", serial=f"16500000{gpu:05}")
    return Finding(part, Verdict.PASS, quantity="memory read", observed=observed, unit="GB/s", limit=limit)


def record(number: int, verdict: Verdict = Verdict.PASS, findings: int = 8) -> Record:
    found = tuple(replace(rate(gpu, 2900.0 + number + gpu / 7), verdict=verdict) for gpu in range(findings))
    return Record(f"n{number // 50}", f"copies.rate{number % 50}", verdict, found)


RECORDS = [
    record(number, verdict, findings)
    for number, (verdict, findings) in enumerate(
        [
            *[(Verdict.PASS, 8)] * 40,
            (Verdict.FAIL, 300),
            (Verdict.WARN, 1),
            (Verdict.PASS, 0),
            *[(Verdict.PASS, 1)] * 90,
        ]
    )
]


@pytest.mark.parametrize("batch", [1, 7, 250, 10_000])
def test_they_read_as_they_came(monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.setattr(packed_findings, "BATCH", batch)
    kept = PackedRecords()
    for each in RECORDS:
        kept.append(each)
    assert len(kept) == len(RECORDS)
    assert list(kept) == RECORDS
    assert [each.message for each in kept] == [each.message for each in RECORDS]
    assert [len(each.findings) for each in kept] == [len(each.findings) for each in RECORDS]
    assert {each for each in kept if each.findings} == {each for each in RECORDS if each.findings}


def test_a_finding_is_had_by_its_place() -> None:
    kept = PackedRecords()
    for number in range(100):
        kept.append(record(number))
    first = next(iter(kept))
    assert isinstance(first.findings, PackedFindings)
    assert first.findings[-1] == record(0).findings[-1]
    assert first.findings[2:4] == record(0).findings[2:4]
    assert first != record(1)


def test_packed_they_take_a_fifth_of_the_memory() -> None:
    def taken(records: list[Record] | PackedRecords) -> int:
        tracemalloc.start()
        for number in range(400):
            records.append(record(number))
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        return size

    assert taken(PackedRecords()) < taken([]) / 5
