"""The limits of a policy, laid over the baselines: they win over every baseline file and over the inventory."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from nodegate.baseline.baseline_file import EVERYWHERE, BaselineFile
from nodegate.baseline.entry import Entry
from nodegate.baseline.limit_keys import LimitKeys
from nodegate.errors import UsageError
from nodegate.files.strict_yaml import did_you_mean


@dataclass(frozen=True)
class Overlay:
    """The limits of one policy file: for each pattern of platforms, with its line, their limits; later ones win."""

    file: str
    sha256: str
    limits: tuple[tuple[str, int, Mapping[str, Entry]], ...]

    def files(self, platforms: Collection[str], keys: LimitKeys) -> list[BaselineFile]:
        """The limits as baseline files, one a platform, that of every platform first.

        Raises:
            UsageError: a pattern that fits no platform, or a key that no check asks for: its clause would hold nothing.
        """
        by_platform: dict[str, dict[str, Entry]] = defaultdict(dict)
        for pattern, line, limits in self.limits:
            for entry in limits.values():
                _asked_for(entry, keys)
            fitting = [name for name in platforms if fnmatchcase(name, pattern)]
            if not fitting and pattern != EVERYWHERE:
                hint = did_you_mean(pattern, platforms)
                raise UsageError(f"no platform {pattern!r}", file=self.file, line=line, hint=hint)
            for name in [EVERYWHERE] if pattern == EVERYWHERE else fitting:
                by_platform[name].update(limits)
        names = sorted(by_platform, key=lambda name: name != EVERYWHERE)
        return [BaselineFile(self.file, self.sha256, name, "", None, by_platform[name]) for name in names]


def _asked_for(entry: Entry, keys: LimitKeys) -> None:
    if entry.key not in keys:
        near = keys.nearest(entry.key)
        hint = f"did you mean {near}?" if near else "nodegate explain limit-keys lists every key"
        raise UsageError(f"no check asks for {entry.key}", file=entry.file, line=entry.line, hint=hint)
