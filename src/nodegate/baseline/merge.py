"""Several baseline files of one platform: later ones win, key by key; what physics allows stays.

The limits of a policy win over every baseline file and over the inventory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from nodegate.baseline.baseline_file import EVERYWHERE, BaselineFile, limits_of_policy, off_peak
from nodegate.baseline.entry import Entry
from nodegate.baseline.limit_keys import LimitKeys
from nodegate.errors import UsageError
from nodegate.files.strict_yaml import Loaded, did_you_mean


def merged(before: BaselineFile | None, file: BaselineFile) -> BaselineFile:
    """A platform with one more file about it; `before` is what earlier files say, None if this is the first."""
    if before is None:
        return file
    limits = {key: _with_peak(entry, before.limits.get(key)) for key, entry in file.limits.items()}
    return replace(
        before,
        title=file.title or before.title,
        match=file.match or before.match,
        limits={**before.limits, **limits},
        like=file.like or before.like,
        without=(*before.without, *file.without),
    )


def alike(platforms: Mapping[str, BaselineFile]) -> dict[str, BaselineFile]:
    """The platforms, each that is like another one with the limits of that one too.

    Raises:
        UsageError: there is no such platform, it is like a third one itself, or it has no limit that is to be left out.
    """
    return {name: _whole(each, platforms) for name, each in platforms.items()}


def _whole(platform: BaselineFile, platforms: Mapping[str, BaselineFile]) -> BaselineFile:
    file = platform.file
    if not platform.like:
        if platform.without:
            raise UsageError("without leaves out limits of the platform that `like` names", file=file, line=1)
        return platform
    other = platforms.get(platform.like)
    if other is None or other.like:
        what = "is like another one itself" if other else "does not exist"
        raise UsageError(f"like: {platform.like}: this platform {what}", file=file, line=1)
    for key in platform.without:
        if key not in other.limits or key in platform.limits:
            message = f"without: {key} is not a limit of {other.platform}, or one of this file too"
            raise UsageError(message, file=file, line=1)
    taken = {key: entry for key, entry in other.limits.items() if key not in platform.without}
    own = {key: _with_peak(entry, taken.get(key)) for key, entry in platform.limits.items()}
    return replace(platform, limits={**taken, **own})


def overlaid(platform: BaselineFile, file: BaselineFile) -> BaselineFile:
    """A platform with the limits of a later file for every platform: those that it has itself are replaced."""
    own = platform.limits
    limits = {key: _with_peak(entry, own[key]) for key, entry in file.limits.items() if key in own}
    return replace(platform, limits={**own, **limits})


def _with_peak(entry: Entry, before: Entry | None) -> Entry:
    """What physics allows stays so, whoever writes another value.

    Raises:
        UsageError: the value is above it, or so far below that it is in another unit.
    """
    if before is None or before.peak is None or entry.peak is not None:
        return entry
    known = {"peak": before.peak, "peak_source": before.peak_source or before.source}
    variants = tuple(replace(each, **known) for each in entry.variants)  # type: ignore[arg-type]
    whole = replace(entry, variants=variants, **known)  # type: ignore[arg-type]
    for each in whole.variants or (whole,):
        if wrong := off_peak(each):
            step = "give another peak with its source if it is not of these GPUs"
            raise each.wrong(wrong, f"the peak is of {before.origin_of_peak}; {step}", entry.line)
    return whole


@dataclass(frozen=True)
class Overlay:
    """The limits of one policy file: for each pattern of platforms, with its line, their limits; later ones win."""

    file: str
    sha256: str
    limits: tuple[tuple[str, int, Mapping[str, Entry]], ...]

    @staticmethod
    def of(loaded: Loaded, platforms: Iterable[str], policy: str) -> Overlay:
        """The limits for these patterns of platforms in the file of a policy of this name, those for all first."""
        ordered = sorted(platforms, key=lambda each: each != EVERYWHERE)
        limits = ((each, loaded.line(("limits", each)), limits_of_policy(loaded, each, policy)) for each in ordered)
        return Overlay(loaded.name, loaded.sha256, tuple(limits))

    def files(self, platforms: Collection[str], keys: LimitKeys) -> list[BaselineFile]:
        """The limits as baseline files, one a platform, that of every platform first.

        Raises:
            UsageError: a pattern that fits no platform, or a key that no check asks for: its clause would hold nothing.
        """
        by_platform: dict[str, dict[str, Entry]] = defaultdict(dict)
        for pattern, line, limits in self.limits:
            for entry in limits.values():
                if entry.key not in keys:
                    near = keys.nearest(entry.key)
                    hint = f"did you mean {near}?" if near else "nodegate explain limit-keys lists every key"
                    raise entry.wrong(f"no check asks for {entry.key}", hint)
            fitting = [name for name in platforms if fnmatchcase(name, pattern)]
            if not fitting and pattern != EVERYWHERE:
                hint = did_you_mean(pattern, platforms)
                raise UsageError(f"no platform {pattern!r}", file=self.file, line=line, hint=hint)
            for name in [EVERYWHERE] if pattern == EVERYWHERE else fitting:
                by_platform[name].update(limits)
        names = sorted(by_platform, key=lambda name: name != EVERYWHERE)
        return [BaselineFile(self.file, self.sha256, name, "", None, by_platform[name]) for name in names]
