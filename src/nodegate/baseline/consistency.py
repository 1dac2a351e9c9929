"""What baseline files and inventories may not say: what has no effect, slips of the pen, contradictions.

One wrong word in a file would fail every node of a cluster, or pass every one. A limit far from the platform's own is
refused, unless its author says that it is meant: `{value: 70, deliberate: "reason"}`.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence

from nodegate.baseline.baseline_file import EVERYWHERE, BaselineFile
from nodegate.baseline.entry import Entry, is_plain_number, kind
from nodegate.baseline.limit_keys import LimitKeys
from nodegate.errors import UsageError
from nodegate.files.strict_yaml import did_you_mean

Ranges = Mapping[str, tuple[float, float]]  # the lowest and the highest value of each key
_MORE_IS_BETTER = ("_tflops", "_gb_per_s", "_gbps", "_mbps", "_mhz")
_LESS_IS_BETTER = ("_us",)
_NEVER_ZERO = (*_MORE_IS_BETTER, *_LESS_IS_BETTER, "_w")  # a quantity that every device has
_NETWORK = "rdma."  # the site's own: ports of any rate, fabrics of any latency
_APART = 10.0  # no good device of any platform is so far from all the others
_OTHER_UNITS = (1000.0, 0.001, 8.0, 0.125)  # kW for W, GB for Gb
_FAR_OFF = 3.0  # a good limit of a site is nearer to that of the platform
_COUNTED = frozenset(("GPUs", "links", "switches", "lanes", "ports", "generation"))  # units of what a board has
_OF_THE_BOARD = frozenset(("gpu.memory_min_gib",))  # quantities that a board has by its make
_SAME_BOARD = 1.1
HINT = 'if it is meant, write {value: .., deliberate: "reason"}'


Slip = tuple[str, str]  # what is wrong with a limit, and the nearest right form


def slip_of_value(key: str, value: object, unit: str, known: Ranges) -> Slip | None:
    """The slip in a value; None where there is none.

    Args:
        key: the limit key.
        value: what is written.
        unit: its unit.
        known: the lowest and the highest value of each key over all platforms.
    """
    if not is_plain_number(value):
        return None
    if value < 0:
        return f"{key}: {value:g} {unit} is below zero".rstrip(), f"write {-value:g}"
    if value == 0 and key.endswith(_NEVER_ZERO):
        return f"{key}: 0 {unit} holds for every device", "leave the key out where nothing is to be judged"
    if not key.endswith(_NEVER_ZERO) or key not in known:
        return None
    low, high = known[key]
    fitting = (value * times for times in _OTHER_UNITS if low / 2 <= value * times <= high * 2)
    right = next((f"write {each:g}, in {unit}" for each in fitting), "")
    # Of the site's own network only what is right in another unit.
    if low / _APART < value < high * _APART or (key.startswith(_NETWORK) and not right):
        return None
    between = f"{low:g} {unit}" if low == high else f"{low:g} to {high:g} {unit}"
    said = f"{key}: {value:g} {unit}, where the known platforms have {between}"
    return said, right or f"is it in another unit than {unit}?"


def slip_of_direction(key: str, direction: str) -> Slip | None:
    """A direction in which slow devices pass and good ones fail; None where it is right."""
    for endings, right, what in ((_MORE_IS_BETTER, "at least", "more"), (_LESS_IS_BETTER, "at most", "less")):
        if direction and key.endswith(endings) and direction != right:
            return f"{key}: {what} of it is better, and the direction is {direction!r}", f"write {right}"
    return None


def ranges(entries: Iterable[Entry]) -> Ranges:
    """The lowest and the highest value of each key."""
    found: dict[str, tuple[float, float]] = {}
    for entry in entries:
        for each in entry.variants or (entry,):
            if is_plain_number(each.value) and each.value > 0:
                low, high = found.get(each.key, (each.value, each.value))
                found[each.key] = (min(low, each.value), max(high, each.value))
    return found


def far_off(key: str, value: object, own: Entry | None) -> str:
    """In words, how a limit contradicts that of its platform; empty where it does not.

    Args:
        key: the limit's.
        value: what is written.
        own: what the shipped file of the platform says.
    """
    if own is None:
        return ""
    found = [_far_off(key, value, each) for each in own.variants or (own,)]
    return found[0] if all(found) else ""


def _far_off(key: str, value: object, own: Entry) -> str:
    right = own.value
    if not is_plain_number(value) or not is_plain_number(right) or value == right:
        return ""
    most = _SAME_BOARD if key in _OF_THE_BOARD else 1.0 if own.unit in _COUNTED else _FAR_OFF
    low, high = sorted((value, right))
    if low > 0 and high <= low * most:
        return ""
    return f"{key}: {value} {own.unit}, and {own.file.rpartition('/')[2]} says {right}".replace("  ", " ")


def refuse_far_off(files: Iterable[BaselineFile], own: Mapping[str, BaselineFile]) -> None:
    """Refuse the limits of a site's files, or of a policy, that contradict the shipped file of their platform.

    Raises:
        UsageError: one of them does, without a word that it is meant; with file and line.
    """
    for file in files:
        limits = own[file.platform].limits if file.platform in own else {}
        for entry in file.limits.values():
            for each in entry.variants or (entry,):
                said = far_off(each.key, each.value, limits.get(each.key))
                if said and not each.deliberate:
                    raise each.wrong(said, HINT, entry.line)


def has_effect(file: BaselineFile, files: Sequence[BaselineFile]) -> None:
    """A file that only changes limits must name a platform that exists."""
    others = {each.platform for each in files if each is not file and (each.match or each.title)}
    if file.platform == EVERYWHERE or file.platform in others or file.match or file.title:
        return
    message = f"no platform {file.platform!r}: the limits of this file would hold for no node"
    advice = did_you_mean(file.platform, sorted(others))
    raise UsageError(message, file=file.file, line=1, hint=advice or "give it a title and a match if it is a new one")


def plausible(entry: Entry, bounds: Ranges) -> None:
    """A slip of the pen must not switch a limit off."""
    for each in entry.variants or (entry,):
        slip = slip_of_value(each.key, each.value, each.unit, bounds) or slip_of_direction(each.key, each.direction)
        if slip:
            raise each.wrong(*slip, entry.line)


def fits(entry: Entry, before: Entry | None) -> None:
    """A key means one thing, in one unit, in every file."""
    if before is None:
        return
    where = f"{before.file}:{before.line}"
    if entry.unit != before.unit:
        message = f"{entry.key} is in {entry.unit!r} here and in {before.unit!r} in {where}"
        raise entry.wrong(message, "use the unit of the other file")
    if kind(entry.value) != kind(before.value):
        message = f"{entry.key} is {kind(entry.value)} here and {kind(before.value)} in {where}"
        raise entry.wrong(message, "write it as in the other file")
    if entry.direction and before.direction and entry.direction != before.direction:
        message = f"{entry.key} is {entry.direction} here and {before.direction} in {where}"
        raise entry.wrong(message, f"write {before.direction}")


def known_key(entry: Entry, known: LimitKeys) -> None:
    """A site may have its own keys, but a key similar to a known one is a mistake that would switch a limit off."""
    if near := known.nearest(entry.key):
        raise entry.wrong(f"no check asks for {entry.key}", f"did you mean {near}?")


def tell_apart(platforms: Mapping[str, BaselineFile]) -> None:
    """Two platforms that match the same hardware could not be distinguished."""
    seen: dict[tuple[str, bool | None, str], BaselineFile] = {}
    for platform in platforms.values():
        match = platform.match
        found = itertools.product(match.gpu_pci_ids, match.system or ("",)) if match else ()
        for pci_id, system in found:
            other = seen.setdefault((pci_id, match.nvswitch if match else None, system), platform)
            if other is not platform:
                hint = f"remove the match from {platform.platform} and set it in the inventory (nodegate_platform)"
                raise UsageError(f"platforms {other.platform} and {platform.platform} both match {pci_id}", hint=hint)
