"""Every form of every row, alone among healthy lines of several formats, is found behind the quick searches."""

import pytest
from support import planted

from nodegate.knowledge.signatures import signatures
from nodegate.knowledge.words import Side
from nodegate.triage import grep


@pytest.mark.parametrize("side", list(Side), ids=lambda side: side.value)
@pytest.mark.parametrize("searched_by", ["grep", "python"])
def test_each_form_of_each_row_is_found_in_a_healthy_log(tmp_path, monkeypatch, side, searched_by):
    if searched_by == "python":
        monkeypatch.setattr(grep, "program", lambda: None)
    path = tmp_path / ("kern-gpu07.log" if side is Side.KERNEL else "job.log")
    plants = planted.write(path, side, 4_000_000)
    assert path.stat().st_size > 3_900_000
    assert {each.row for each in plants} == {each.id for each in signatures() if each.side is side}
    assert planted.missed(path, side, plants) == []
