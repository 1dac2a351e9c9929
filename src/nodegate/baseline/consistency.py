"""What baseline files may not say together: limits without effect, in two units, or switched off by a slip."""

import itertools
from collections.abc import Mapping, Sequence

from nodegate.baseline.baseline_file import EVERYWHERE, BaselineFile
from nodegate.baseline.entry import Entry, kind
from nodegate.baseline.limit_keys import LimitKeys
from nodegate.baseline.platform import Platform
from nodegate.baseline.plausible import Ranges, slip_of_direction, slip_of_value
from nodegate.errors import UsageError
from nodegate.files.strict_yaml import did_you_mean


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
            raise UsageError(slip.message, file=each.file, line=each.line or entry.line, hint=slip.advice)


def fits(entry: Entry, before: Entry | None) -> None:
    """A key means one thing, in one unit, in every file."""
    if before is None:
        return
    where = f"{before.file}:{before.line}"
    if entry.unit != before.unit:
        message = f"{entry.key} is in {entry.unit!r} here and in {before.unit!r} in {where}"
        raise UsageError(message, file=entry.file, line=entry.line, hint="use the unit of the other file")
    if kind(entry.value) != kind(before.value):
        message = f"{entry.key} is {kind(entry.value)} here and {kind(before.value)} in {where}"
        raise UsageError(message, file=entry.file, line=entry.line, hint="write it as in the other file")
    if entry.direction and before.direction and entry.direction != before.direction:
        message = f"{entry.key} is {entry.direction} here and {before.direction} in {where}"
        raise UsageError(message, file=entry.file, line=entry.line, hint=f"write {before.direction}")


def known_key(entry: Entry, known: LimitKeys) -> None:
    """A site may have its own keys, but a key similar to a known one is a mistake that would switch a limit off."""
    near = known.nearest(entry.key)
    if near:
        message = f"no check asks for {entry.key}"
        raise UsageError(message, file=entry.file, line=entry.line, hint=f"did you mean {near}?")


def tell_apart(platforms: Mapping[str, Platform]) -> None:
    """Two platforms that match the same hardware could not be distinguished."""
    seen: dict[tuple[str, bool | None, str], Platform] = {}
    for platform in platforms.values():
        match = platform.match
        found = itertools.product(match.gpu_pci_ids, match.system or ("",)) if match else ()
        for pci_id, system in found:
            other = seen.setdefault((pci_id, match.nvswitch if match else None, system), platform)
            if other is not platform:
                raise UsageError(
                    f"platforms {other.name} and {platform.name} both match {pci_id}",
                    hint=f"remove the match from {platform.name} and set it in the inventory (nodegate_platform)",
                )
