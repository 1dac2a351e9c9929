"""What is said with a run of how little its size or its noise allows to find."""

from random import Random

import pytest
from support.measured import baseline, metric

from nodegate.metric import Metric
from nodegate.numbers.peers import Measured, Peers
from nodegate.run.notes import fleet_allows


def said(nodes: int, noise: float, **changes: str) -> str:
    drawn = Random(5)  # noqa: S311
    measured = {f"gpu{at:03}": ("hgx-h100-8", [metric(480 * drawn.gauss(1, noise), **changes)]) for at in range(nodes)}
    return said_of(measured)


def said_of(measured: Measured) -> str:
    platforms = {node: platform for node, (platform, _) in measured.items()}
    return "\n".join(
        fleet_allows(platforms, lambda node: measured[node][1], Peers.of(measured), lambda _node: baseline())
    )


def test_with_fewer_than_eight_nodes_a_slow_one_is_not_found_by_comparison() -> None:
    assert said(2, 0.005) == "comparing nodes finds no slow one: hgx-h100-8 (2 nodes, 8 are needed)"
    few = "comparing so few nodes finds only one that is far behind: hgx-h100-8 (4 nodes, 8 are needed)"
    assert said(4, 0.005) == few


def test_where_the_noise_hides_what_is_sought_it_is_said_how_much_less_is_found() -> None:
    told = said(64, 0.03)
    assert told.startswith("comparing nodes finds no slow one: hgx-h100-8 in all_reduce (below 1")


@pytest.mark.parametrize(
    ("nodes", "noise", "unit", "words"),
    [
        (10, 0.2, "GB/s", "comparing nodes finds no slow one: hgx-h100-8 in all_reduce"),
        (64, 0.005, "GB/s", ""),
        (4, 0.005, "°C", ""),  # heat is not compared
    ],
)
def test_it_is_said_only_where_it_is_so(nodes: int, noise: float, unit: str, words: str) -> None:
    assert said(nodes, noise, unit=unit) == words


def test_where_nothing_was_measured_or_the_platform_is_unknown_nothing_is_said() -> None:
    for platform, metrics in (("", [metric(480)]), ("hgx-h100-8", list[Metric]())):
        measured = {"gpu001": (platform, metrics)}
        assert said_of(measured) == ""
