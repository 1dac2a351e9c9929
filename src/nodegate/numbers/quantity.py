"""What makes two numbers comparable, and which quantities are of one kind."""

from typing import cast

from nodegate.metric import Metric
from nodegate.numbers.node_figures import OF

Key = tuple[object, ...]  # two metrics of one key are comparable

OF_CHIPS = "burn"


def key(platform: str, metric: Metric) -> Key:
    """What two numbers share that can be compared."""
    return (platform, metric.unit, metric.better, *metric.key)


def kind(key: Key) -> Key:
    """What the quantities of one kind share: the platform, the unit, what they are of, and the tool by their name."""
    platform, unit, better, name, _ = key
    said = words(key)
    tool = str(name).partition(".")[0]
    if tool == OF_CHIPS:
        tool = str(name)  # the same chips are good in each type of numbers: they tell no more than one does
    return platform, unit, better, tool, OF in said, said.get("group"), said.get("nodes")


def key_of_devices(figure: Key) -> Key:
    """The key of what the figure of a node is the median of."""
    return *figure[:4], tuple(each for each in words(figure).items() if each[0] != OF)


def words(key: Key) -> dict[str, str]:
    """The conditions of a quantity."""
    return dict(cast("tuple[tuple[str, str], ...]", key[4]))
