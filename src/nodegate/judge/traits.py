"""What sets a node apart from others when numbers are compared: its place, and the make of its parts."""

from collections import Counter
from collections.abc import Mapping

from nodegate.node import Node
from nodegate.unknown import Known, Unknown

_OF_ONE_LOT = 6  # digits of a GPU's serial number that boards of one delivery share
_SHORTEST = 10  # of a serial number that has them
_MOST_OF = 0.5  # of the GPUs of a node are of a lot, or the node is not


def traits_of(node: Node, known: Mapping[str, Known[str]], serials: Mapping[str, str]) -> dict[str, str]:
    """The node's traits by name, places first: {"rack": "r7", "GPU VBIOS": "96.00.74", "GPU serials": "165292..."}.

    Args:
        node: the node, for what the inventory says of it.
        known: its characteristics; what could not be read sets no node apart.
        serials: part -> serial number.
    """
    places = {"rack": node.rack, "leaf": ", ".join(node.settings.leaf)}
    found = {name: place for name, place in places.items() if place}
    found |= {name: value for name, value in known.items() if not isinstance(value, Unknown)}
    lot = _lot([serial for part, serial in serials.items() if part.startswith("GPU ")])
    return found | ({"GPU serials": f"{lot}..."} if lot else {})


def _lot(serials: list[str]) -> str:
    """The first digits of most of a node's serial numbers; empty where they differ or are no numbers."""
    heads = Counter(serial[:_OF_ONE_LOT] for serial in serials if serial.isdecimal() and len(serial) >= _SHORTEST)
    head, count = heads.most_common(1)[0] if heads else ("", 0)
    return head if count > _MOST_OF * len(serials) else ""
