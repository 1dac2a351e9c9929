"""What the inventory expects of a node (`nodegate_*` variables), as limits that win over the platform's."""

import contextlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping

from nodegate.baseline.baseline_file import BaselineFile
from nodegate.baseline.consistency import Ranges, far_off, slip_of_value
from nodegate.baseline.entry import SWITCHES, Entry, is_plain_number, kind, switch_words, unit_for
from nodegate.baseline.limit_keys import LimitKeys
from nodegate.files.strict_yaml import did_you_mean
from nodegate.node import Node
from nodegate.node_settings.table import KNOWN, PREFIX
from nodegate.records.finding import AnyLimit, Limit, LimitKind, limit_value

_UNITS = {"gpu.count": "GPUs", "rdma.rails": "ports"}


def check_expected(
    nodes: Iterable[Node], platforms: Collection[str], entries: Mapping[str, Entry], keys: LimitKeys, ranges: Ranges
) -> None:
    """Refuse what no part of the suite would read: a typing error in a limit must not switch it off.

    Args:
        nodes: the nodes of the run.
        platforms: the platforms with baselines.
        entries: an entry of each key, of any platform: the kind of its value is that of all.
        keys: the limit keys that are known.
        ranges: the lowest and the highest value of each over all platforms.

    Raises:
        UsageError: an unknown nodegate_* variable, platform or limit key, or a value of the wrong kind.
    """
    for node in nodes:
        for name in node.expected:
            if name not in KNOWN:
                hint = did_you_mean(PREFIX + name, {PREFIX + known for known in KNOWN})
                raise node.wrong(f"unknown variable {PREFIX}{name}", hint)
        if node.platform and node.platform not in platforms:
            what = f"{PREFIX}platform: no baseline for {node.platform!r}"
            raise node.wrong(what, did_you_mean(node.platform, platforms), variable="platform")
        for key in overrides(node, entries, ranges):
            if near := keys.nearest(key):
                raise node.wrong(f"unknown limit {key!r}", f"did you mean {near}?")


def overrides(node: Node, entries: Mapping[str, Entry], ranges: Ranges) -> Mapping[str, AnyLimit]:
    """The limits that the inventory sets for this node; units come from the platform's entries or the key's ending.

    A value that no platform can have is a slip of the pen, for which `ranges` holds what the known ones have.

    Raises:
        UsageError: a value of the wrong kind, with the node's file and line.
    """
    found = {key: _limit(node, key, value, entries.get(key)) for key, value in node.settings.limit_values.items()}
    for key, limit in found.items():
        if slip := slip_of_value(key, limit.value, limit.unit, ranges):
            raise node.wrong(*slip)
    return found


def far_off_limits(node: Node, platform: BaselineFile) -> Iterator[str]:
    """Each limit of `nodegate_limits` that contradicts the shipped file of its platform, in words."""
    for key, value in node.settings.limits.items():
        if not isinstance(value, dict) and (said := far_off(key, _plain(value), platform.limits.get(key))):
            yield said


def _plain(value: object) -> object:
    """A number, also if an INI inventory has it as text."""
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            return float(value) if "." in value else int(value)
    return value


def _limit(node: Node, key: str, value: object, entry: Entry | None) -> AnyLimit:
    allowed = unit_for(key)
    meant: object = ""  # for a value that is far from the platform's
    if isinstance(value, dict):
        meant = value.get("deliberate")
        if value.keys() != {"value", "deliberate"} or not isinstance(meant, str) or not meant.strip():
            raise node.wrong(f"{key} is a mapping", 'write {value: .., deliberate: "reason"}')
        value = value["value"]
    if key in SWITCHES:
        value = {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value).lower()
        words = switch_words(key)
        if value not in words:
            raise node.wrong(f"{key} must be {' or '.join(words)}, not {value!r}")
    wanted = "a number" if key in _UNITS or (entry is None and allowed) else kind(entry.value) if entry else ""
    if wanted == "a number" and value != "unlimited":
        value = _plain(value)
        if not is_plain_number(value) or not math.isfinite(value):
            raise node.wrong(f"{key} must be a number, not {value!r}")
    elif key not in SWITCHES and wanted not in ("", kind(value)):
        hint = f'put it in quotes: {key}: "{value}"' if wanted == "text" else ""
        raise node.wrong(f"{key} must be {wanted}, not {value!r}", hint)
    unit = entry.unit if entry else _UNITS.get(key) or (allowed[0] if len(allowed) == 1 else "")
    source = f"inventory {node.origin}".rstrip() + (f"; deliberate: {meant}" if meant else "")
    return Limit(limit_value(value), unit, source, kind=LimitKind.ORDER)
