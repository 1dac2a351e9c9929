"""A demands file: the inventory's variables of one node with the site's limits, as /etc/nodegate/demands.yaml has them.

It is JSON, which is YAML too and needs no package; the hash is over everything that is demanded, not over the time.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from nodegate.errors import UsageError
from nodegate.files import strict_json
from nodegate.node import Connection, Node
from nodegate.node_settings.table import PREFIX
from nodegate.text import names

SCHEMA = "nodegate.demands/1"
MOST_BYTES = 4 << 20
_ANEW = "write it again with nodegate demands"
_TEXTS = ("schema", "sha256", "made", "node", "platform")
_KEYS = {**dict.fromkeys(_TEXTS, str), "variables": dict, "baselines": list, "policy": dict}


@dataclass(frozen=True)
class Embedded:
    """A file of the site as a demands file holds it.

    Args:
        file: its name, without its folder.
        content: what it says: a baseline file whole, of a policy `policy` and `limits`.
    """

    file: str
    content: Mapping[str, object]


@dataclass(frozen=True)
class Demands:
    """What a site asks of one node.

    Args:
        node: its name in the inventory.
        variables: its `nodegate_*` variables under their whole names, but for `nodegate_platform`.
        platform: the platform that the inventory names; empty: it is recognised from the hardware.
        baselines: the site's baseline files, later ones win.
        policy: the policy's limits; None where it has none.
        made: when, as 2026-11-25T18:00:00Z.
        place: the file that it was read from.
    """

    node: str
    variables: Mapping[str, object]
    platform: str = ""
    baselines: tuple[Embedded, ...] = ()
    policy: Embedded | None = None
    made: str = ""
    place: str = ""

    @cached_property
    def sha256(self) -> str:
        """The hash of what is demanded: the same demands have the same one, whenever they were written.

        Raises:
            UsageError: a variable has a value that no JSON can say.
        """
        try:
            text = json.dumps(self._content, sort_keys=True, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError, RecursionError) as said:
            raise UsageError(f"{self.node}: its variables cannot be written as JSON: {said}") from None
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def text(self) -> str:
        """The file. The hash comes early: the probe reads the head of the file only."""
        whole = {"schema": SCHEMA, "sha256": self.sha256, "made": self.made, **self._content}
        return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"

    @property
    def _content(self) -> dict[str, object]:
        return {
            "node": self.node,
            "platform": self.platform,
            "variables": dict(self.variables),
            "baselines": [vars(each) for each in self.baselines],
            "policy": vars(self.policy) if self.policy else {},
        }

    @property
    def serial(self) -> str:
        """The serial number of the chassis that the inventory gives; empty for none."""
        return str(self.variables.get(f"{PREFIX}serial", "") or "").strip()

    def as_node(self, name: str, more: Mapping[str, object], ports: Sequence[int] = ()) -> Node:
        """This machine with the demands as an inventory would give them; `more` wins over them.

        Args:
            name: the machine's own name.
            more: variables without their prefix.
            ports: TCP ports that must be free, in addition to those of the demands.
        """
        expected = {name.removeprefix(PREFIX): value for name, value in self.variables.items()}
        expected |= {**({"platform": self.platform} if self.platform else {}), **more}
        if ports:
            expected["ports"] = [*names(expected.get("ports")), *map(str, ports)]
        lock = str(expected.get("lock") or Connection.lock)
        return Node(name, Connection(transport="local", lock=lock), expected=expected, origin=self.place)


def parse(raw: bytes, place: str) -> Demands:
    """The demands in a file's content; `place` is the file's name in messages.

    Raises:
        UsageError: it is not a demands file of this release, or not as it was written.
    """
    try:
        found = strict_json.loads(raw)
    except (ValueError, RecursionError):
        raise UsageError("this is not a demands file, or damaged", file=place, hint=_ANEW) from None
    schema = found.get("schema") if isinstance(found, dict) else None
    if not isinstance(found, dict) or schema != SCHEMA:
        said = f"schema {str(schema)[:40]!r}, this release reads {SCHEMA}"
        raise UsageError(said, file=place, hint="bring nodegate to one release on this node and where it was written")
    odd = [key for key in {**_KEYS, **found} if key not in _KEYS or not isinstance(found.get(key), _KEYS[key])]
    embedded = [] if odd else [*found["baselines"], *([found["policy"]] if found["policy"] else [])]
    if odd or not all(map(_is_embedded, embedded)):
        raise UsageError("this demands file is damaged", file=place, hint=_ANEW)
    demands = Demands(
        *(found["node"], found["variables"], found["platform"]),
        baselines=tuple(Embedded(**each) for each in found["baselines"]),
        policy=Embedded(**found["policy"]) if found["policy"] else None,
        made=found["made"],
        place=place,
    )
    if demands.sha256 != found["sha256"]:
        raise UsageError("it was changed after it was written: its hash differs", file=place, hint=_ANEW)
    return demands


def _is_embedded(each: object) -> bool:
    return (
        isinstance(each, dict)
        and each.keys() == {"file", "content"}
        and isinstance(each["file"], str)
        and isinstance(each["content"], dict)
    )
