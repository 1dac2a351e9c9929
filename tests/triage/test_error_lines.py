"""100 lines of an error, each with its class and place, and 60 harmless lines that look like one."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.job_logs import iteration, judge

if TYPE_CHECKING:
    from nodegate.triage.answer import Answer

_FOLDER = Path(__file__).parents[1] / "knowledge"
_STEPS = [iteration(f"15:{minute:02}:00", minute) for minute in range(1, 6)]
_ECC = "[rank2]: RuntimeError: CUDA error: uncorrectable ECC error encountered"
_WANTED = 90


def _rows(name: str) -> list[dict[str, str]]:
    with (_FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _wrong(found: Answer, row: dict[str, str]) -> str:
    """What is wrong with the answer to a line; "" for nothing."""
    where = found.where
    place = f"{where.node} {where.pod} {where.rank} {found.device}"
    said = f"{found.meaning.en} {found.action.en}".lower()
    if found.cause.value not in row["class"].split("|"):
        return f"class {found.cause.value}"
    if row["where"] not in place:
        return f"place {place}"
    return "" if any(word.lower() in said for word in row["says"].split("|")) else f"says {said[:80]}"


def test_most_error_lines_are_named_and_none_is_sure_and_wrong(tmp_path):
    rows, misses, false = _rows("error_lines.csv"), [], []
    for number, row in enumerate(rows):
        found = judge(tmp_path / str(number), {"job.log": [*_STEPS, row["line"]]})
        if wrong := _wrong(found, row):
            misses.append(f"{row['line'][:90]}: {wrong} {found.root.kind.id if found.root else ''}")
            false += misses[-1:] if found.sure and not wrong.startswith("says") else []
    assert false == []
    assert len(rows) - len(misses) >= _WANTED, "\n".join(misses)


@pytest.mark.parametrize("row", _rows("harmless_lines.csv"), ids=lambda row: row["line"][:50])
def test_a_harmless_line_is_no_error_and_hides_none(tmp_path, row):
    goes_on = judge(tmp_path / "goes_on", {"job.log": [row["line"], *_STEPS[:2], row["line"], *_STEPS[2:]]})
    assert not goes_on.failed
    alone = judge(tmp_path / "starts", {"job.log": ["loading the model", row["line"], "building the model"]})
    assert not alone.sure
    before = judge(tmp_path / "before", {"job.log": [row["line"], "building the model", _ECC]})
    assert (before.root.kind.id, before.sure) == ("cuda_ecc", True)
