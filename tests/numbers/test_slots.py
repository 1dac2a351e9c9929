"""A place that is slow on every node is told, though the fleet calls it usual."""

import pytest
from support.measured import baseline, metric

from nodegate.numbers.assessments import assessments
from nodegate.numbers.limits import Physics
from nodegate.numbers.peers import Peers
from nodegate.records.verdict import Verdict

COPY = "memory.host_to_device_gb_per_s"


def told(rates: list[float], *, nodes: int = 16, unit: str = "GB/s", slower_link: int | None = None) -> dict[str, str]:
    def own() -> list:
        return [metric(rate, name=COPY, unit=unit, device=f"GPU {at}") for at, rate in enumerate(rates)]

    fleet = {f"gpu{at:02}": ("hgx-h100-8", own()) for at in range(nodes)}
    peers = Peers.of(fleet).of_node("gpu03")

    def link(each: object, _: object) -> Physics:
        return Physics(200.0 if each.device == f"GPU {slower_link}" else 400.0, "its link")

    found = assessments(fleet["gpu03"][1], baseline=baseline(), peers=peers, physics=link)
    return {each.device: said.note for each, said in found if said.verdict is not Verdict.PASS}


def test_a_place_that_is_7_percent_slow_on_all_nodes_is_a_warning():
    found = told([390.0] * 3 + [363.0] + [390.0] * 4)
    assert list(found) == ["GPU 3"]
    assert "slow on 16 nodes: its median 363 GB/s is 6.9 % below the 390 GB/s of 7 other places" in found["GPU 3"]


@pytest.mark.parametrize(
    ("rates", "more"),
    [
        ([390.0] * 8, {}),
        ([390.0] * 4 + [363.0] * 4, {}),  # the far socket
        ([390.0] * 3 + [375.0] + [390.0] * 4, {}),  # within the floor
        ([390.0] * 3 + [195.0] + [390.0] * 4, {"slower_link": 3}),
        ([60.0] * 3 + [50.0] + [60.0] * 4, {"unit": "°C"}),
    ],
    ids=["all equal", "half of the places", "a little", "a slower link", "heat"],
)
def test_what_is_no_fault_of_a_place(rates: list[float], more: dict[str, object]):
    assert told(rates, **more) == {}
