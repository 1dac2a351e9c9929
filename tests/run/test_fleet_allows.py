"""What is said with a run of how little its size or its noise allows to find."""

from __future__ import annotations

from random import Random

from support.measured import ALL_REDUCE, baseline, metric

from nodegate.metric import Metric
from nodegate.numbers.peers import Peers
from nodegate.run.fleet_allows import fleet_allows


def said(nodes: int, noise: float, **changes: str) -> list[str]:
    drawn = Random(5)  # noqa: S311
    measured = {f"gpu{at:03}": ("hgx-h100-8", [metric(480 * drawn.gauss(1, noise), **changes)]) for at in range(nodes)}
    return list(fleet_allows(measured, Peers.of(measured), dict.fromkeys(measured, baseline())))


def test_with_fewer_than_eight_nodes_a_slow_one_is_not_found_by_comparison() -> None:
    (told,) = said(4, 0.005)
    assert told == (
        "hgx-h100-8: 4 nodes measured, 8 are needed to compare nodes: a whole node that is 5 % slow is found only by a "
        "limit so close (nodegate baseline learn)"
    )


def test_where_the_noise_hides_what_is_sought_it_is_said_how_much_less_is_found() -> None:
    (told,) = said(64, 0.03)
    assert told.startswith("hgx-h100-8: nodes differ so much that a slow one is found by comparison only from: ")
    assert f"{ALL_REDUCE} 1" in told


def test_where_nothing_can_be_told_apart_it_is_said_so() -> None:
    (told,) = said(10, 0.2)
    assert f"{ALL_REDUCE} not at all" in told


def test_a_quiet_fleet_of_enough_nodes_needs_no_word() -> None:
    assert said(64, 0.005) == []


def test_heat_is_not_compared() -> None:
    assert said(4, 0.005, unit="°C") == []


def test_where_nothing_was_measured_or_the_platform_is_unknown_nothing_is_said() -> None:
    for platform, metrics in (("", [metric(480)]), ("hgx-h100-8", list[Metric]())):
        measured = {"gpu001": (platform, metrics)}
        assert list(fleet_allows(measured, Peers.of(measured), {"gpu001": baseline()})) == []
