"""Several baseline files of one platform: later ones win, key by key; what physics allows stays."""

from collections.abc import Mapping
from dataclasses import replace

from nodegate.baseline.baseline_file import BaselineFile, off_peak
from nodegate.baseline.entry import Entry
from nodegate.baseline.platform import Platform
from nodegate.errors import UsageError


def merged(before: Platform | None, file: BaselineFile) -> Platform:
    """A platform with one more file about it; `before` is what earlier files say, None if this is the first."""
    if before is None:
        return Platform(file.platform, file.title, file.match, dict(file.limits), file.like, file.without)
    limits = {key: _with_peak(entry, before.limits.get(key)) for key, entry in file.limits.items()}
    return Platform(
        name=file.platform,
        title=file.title or before.title,
        match=file.match or before.match,
        limits={**before.limits, **limits},
        like=file.like or before.like,
        without=(*before.without, *file.without),
    )


def alike(platforms: Mapping[str, Platform], file_of: Mapping[str, str]) -> dict[str, Platform]:
    """The platforms, each that is like another one with the limits of that one too.

    Raises:
        UsageError: there is no such platform, it is like a third one itself, or it has no limit that is to be left out.
    """
    return {name: _whole(each, platforms, file_of[name]) for name, each in platforms.items()}


def _whole(platform: Platform, platforms: Mapping[str, Platform], file: str) -> Platform:
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
            message = f"without: {key} is not a limit of {other.name}, or one of this file too"
            raise UsageError(message, file=file, line=1)
    taken = {key: entry for key, entry in other.limits.items() if key not in platform.without}
    own = {key: _with_peak(entry, taken.get(key)) for key, entry in platform.limits.items()}
    return replace(platform, limits={**taken, **own})


def overlaid(platform: Platform, file: BaselineFile) -> Platform:
    """A platform with the limits of a later file for every platform: those that it has itself are replaced."""
    limits = {
        key: _with_peak(entry, platform.limits[key]) for key, entry in file.limits.items() if key in platform.limits
    }
    return replace(platform, limits={**platform.limits, **limits})


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
        wrong = off_peak(each)
        if wrong:
            hint = (
                f"the peak is of {before.origin_of_peak}; give another peak with its source if it is not of these GPUs"
            )
            raise UsageError(wrong, file=entry.file, line=each.line or entry.line, hint=hint)
    return whole
