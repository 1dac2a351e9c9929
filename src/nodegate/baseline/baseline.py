"""Baselines: what is right for each platform, from baselines/*.yaml, a site's own files and the inventory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from nodegate.baseline import baseline_file, consistency, expected
from nodegate.baseline.baseline_file import EVERYWHERE, BaselineFile
from nodegate.baseline.consistency import Ranges, ranges
from nodegate.baseline.entry import Entry, kind
from nodegate.baseline.limit_keys import LimitKeys, checks_beside
from nodegate.baseline.merge import Overlay, alike, merged, overlaid
from nodegate.baseline.platform import OF_THE_WHOLE, Detected, detect, look
from nodegate.errors import NotJudged, UsageError
from nodegate.files.paths import BASELINES, CHECKS, suite_folder
from nodegate.files.text_file import Source
from nodegate.metric import Statistic
from nodegate.metric_names import METRICS
from nodegate.node import Node
from nodegate.probe.gpu import Gpus
from nodegate.probe.host import Host
from nodegate.probe.pci import Pci
from nodegate.records.finding import AnyLimit, Limit, NumberLimit

PART_OF = "a virtual machine with a part of"


@dataclass(frozen=True)
class Baseline:
    """The limits of one node.

    `platform` is the one that counts: `named` by the inventory, else `detected` from the hardware; "" when unknown,
    and then `reason` says why. Limits for every platform, and those of the inventory, are there anyway. `statistic`
    says which of several attempts at a number is held to its limit: the best, the median or the worst.
    """

    platform: str
    title: str
    reason: str
    named: str
    detected: str
    entries: Mapping[str, Entry] = field(default_factory=dict)
    overrides: Mapping[str, AnyLimit] = field(default_factory=dict)
    statistic: Statistic | None = None
    is_part: bool = False  # a virtual machine with some of the GPUs of a board
    contradiction: str = ""  # how the settings contradict the machine; then nothing can be judged by them

    def find(self, key: str) -> AnyLimit | None:
        """The limit, or None if there is none."""
        if key in self.overrides:
            return self.overrides[key]
        entry = self.entries.get(key)
        return entry.limit if entry and entry.value is not None else None

    def number(self, key: str) -> NumberLimit:
        """The limit, which is a number. Raises as `limit`, and UsageError if it is not."""
        return _number(key, self.limit(key))

    def find_number(self, key: str) -> NumberLimit | None:
        """The limit, which is a number, or None if there is none. Raises UsageError if it is not a number."""
        found = self.find(key)
        return None if found is None else _number(key, found)

    def text(self, key: str) -> Limit[str]:
        """The limit, which is a text. Raises as `limit`, and UsageError if it is not."""
        return cast("Limit[str]", _of_kind(key, self.limit(key), (str,), "a text"))

    def switch(self, key: str) -> Limit[bool]:
        """The limit, which is on or off. Raises as `limit`, and UsageError if it is neither."""
        return cast("Limit[bool]", _of_kind(key, self.limit(key), (bool,), "true or false"))

    def table(self, key: str) -> Limit[tuple[float, ...]]:
        """The limit, which is a list of numbers. Raises as `limit`, and UsageError if it is not."""
        return cast("Limit[tuple[float, ...]]", _of_kind(key, self.limit(key), (tuple,), "a list of numbers"))

    def entry(self, key: str) -> Entry | None:
        """The entry behind a limit, with its peak and parameters; None if there is none."""
        return self.entries.get(key)

    def limit(self, key: str) -> AnyLimit:
        """The limit.

        Raises:
            NotJudged: there is none: an absent limit is never a pass.
        """
        if (found := self.find(key)) is None:
            part = f"{PART_OF} {self.platform}; nodegate_gpus says how many GPUs it has" if self.is_part else ""
            whose = f"platform {self.platform}" if self.platform else self.reason
            raise NotJudged(f"no limit {key} for {part or whose}")
        return found


def _number(key: str, limit: AnyLimit) -> NumberLimit:
    return cast("NumberLimit", _of_kind(key, limit, (int, float), "a number"))


def _of_kind(key: str, limit: AnyLimit, types: tuple[type, ...], wanted: str) -> AnyLimit:
    if type(limit.value) in types:
        return limit
    raise UsageError(f"{key} is {kind(limit.value)}, not {wanted} ({limit.source})", hint=f"write {wanted}")


@dataclass(frozen=True)
class Baselines:
    """All baselines of a run, by platform. `common` applies to every platform; `keys` are the known limit keys.

    `settled` are the keys of each platform that a policy has decided: there the inventory's word does not count.
    `shipped` are the platforms as nodegate's own files have them.
    """

    platforms: Mapping[str, BaselineFile]
    common: Mapping[str, Entry]
    sources: tuple[Source, ...]
    keys: LimitKeys = field(default_factory=LimitKeys)
    ranges: Ranges = field(default_factory=dict)
    settled: Mapping[str, frozenset[str]] = field(default_factory=dict)
    shipped: Mapping[str, BaselineFile] = field(default_factory=dict)
    _entries: dict[tuple[str, bool], Mapping[str, Entry]] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def read(
        extra: Sequence[Path | BaselineFile] = (), checks: Iterable[Path] = (), policy: Overlay | None = None
    ) -> Baselines:
        """Read the suite's own baselines, then those of `extra`, in order: later ones win, key by key.

        Args:
            extra: baseline files of the site, those too that were read before.
            checks: check files of the site, whose limit keys are known too; those in a folder checks/ next to a
                baseline file, or next to its folder, are found without being named.
            policy: the limits that win over all of them.

        Raises:
            UsageError: a file cannot be read or is not as docs/guide/baselines.md says, with file and line.
        """
        folder = suite_folder(BASELINES)
        own = [baseline_file.read(path, f"baselines/{path.name}") for path in sorted(folder.glob("*.yaml"))]
        own.sort(key=lambda file: file.platform != EVERYWHERE)
        named = frozenset(METRICS).union(*(file.limits for file in own))
        paths = [each for each in extra if not isinstance(each, BaselineFile)]
        keys = LimitKeys(named, (*suite_folder(CHECKS).glob("test_*.py"), *checks, *checks_beside(paths)))
        sites = [each if isinstance(each, BaselineFile) else baseline_file.read(each) for each in extra]
        for file in sites:
            consistency.has_effect(file, [*own, *sites])
        files = [*own, *sites]
        shipped = Baselines.of(own, known=keys).platforms if sites or policy else {}
        if policy is None:
            alone = Baselines.of(files, known=keys)
            consistency.refuse_far_off(sites, shipped)
            return replace(alone, shipped=shipped or alone.platforms)
        decided = policy.files([file.platform for file in files], keys)
        settled = {file.platform: frozenset(file.limits) for file in decided}
        whole = Baselines.of([*files, *decided], known=keys)
        consistency.refuse_far_off([*sites, *decided], shipped)
        return replace(whole, sources=whole.sources[: len(files)], settled=settled, shipped=shipped)

    @staticmethod
    def of(files: Iterable[BaselineFile], *, known: LimitKeys | None = None) -> Baselines:
        """The baselines in these files; `known` are the limit keys that checks ask for.

        Raises:
            UsageError: two files contradict each other, or a key is similar to a known one.
        """
        platforms: dict[str, BaselineFile] = {}
        seen: dict[str, Entry] = {}
        sources = []
        keys = known or LimitKeys()
        all_of: list[Entry] = []
        for file in files:
            bounds = ranges(all_of)
            for entry in file.limits.values():
                consistency.known_key(entry, keys)
                consistency.fits(entry, seen.get(entry.key))
                consistency.plausible(entry, bounds)
            seen.update(file.limits)
            all_of += file.limits.values()
            if file.platform == EVERYWHERE:  # it wins over all that was read before it, key by key
                platforms = {name: overlaid(each, file) for name, each in platforms.items()}
            platforms[file.platform] = merged(platforms.get(file.platform), file)
            sources.append(Source(file.file, file.sha256))
        everywhere = platforms.pop(EVERYWHERE, None)
        platforms = alike(platforms)
        consistency.tell_apart(platforms)
        common = everywhere.limits if everywhere else {}
        return Baselines(platforms, common, tuple(sources), keys.and_named(seen), ranges(all_of))

    def for_node(self, node: Node, gpus: Gpus | None, pci: Pci | None, host: Host | None = None) -> Baseline:
        """The limits of this node: by the platform that the inventory names, else by the hardware that was seen.

        Raises:
            UsageError: the inventory names a platform without a baseline, or a limit of the wrong type.
        """
        detected = detect(look(gpus, pci, host), self.platforms.values())
        named = node.platform
        if named and named not in self.platforms:
            self.check_expected([node])
        platform = self.platforms.get(named or detected.name)
        name, title = (platform.platform, platform.title) if platform else ("", "")
        part = detected.part and not named
        entries = self._entries_of(platform, part=part)
        none: frozenset[str] = frozenset()
        settled = self.settled.get(EVERYWHERE, none) | self.settled.get(name, none)
        asked = expected.overrides(node, entries, self.ranges)
        return Baseline(
            platform=name,
            title=f"{PART_OF} {title}" if platform and part else title,
            reason="" if platform else detected.reason,
            named=named,
            detected=named if named and self._board(named) == self._board(detected.name) else detected.name,
            entries=entries,
            overrides={key: limit for key, limit in asked.items() if key not in settled},
            is_part=part,
            contradiction=self._contradiction(node, named, detected),
        )

    def _contradiction(self, node: Node, named: str, detected: Detected) -> str:
        """How what the site says of a node contradicts what it is; empty where it does not."""
        if named and detected.name and not detected.part and self._board(named) != self._board(detected.name):
            return f"platform {named} is named ({node.origin or 'by hand'}), the PCI ids are those of {detected.name}"
        own = self.shipped.get(named or detected.name)
        if own is None or detected.part:
            return ""
        return next(filter(None, expected.far_off_limits(node, own)), "")

    def _entries_of(self, platform: BaselineFile | None, *, part: bool) -> Mapping[str, Entry]:
        """The limits of a platform and those of every one; the same object for all of its nodes."""
        key = (platform.platform if platform else "", part)
        if key not in self._entries:
            own = platform.limits if platform else {}
            if part:
                own = {name: entry for name, entry in own.items() if not name.startswith(OF_THE_WHOLE)}
            self._entries[key] = {**self.common, **own}
        return self._entries[key]

    def _board(self, platform: str) -> str:
        """The board of a platform: a layout of a cloud has that of the platform that it is like."""
        found = self.platforms.get(platform)
        return platform if found is None else found.like or platform

    def check_expected(self, nodes: Iterable[Node]) -> None:
        """Refuse `nodegate_*` variables that nothing reads, and platforms without a baseline.

        Raises:
            UsageError: with the inventory's file and line, and the near match.
        """
        entries = {key: entry for each in self.platforms.values() for key, entry in each.limits.items()}
        known = {**entries, **self.common}
        expected.check_expected(nodes, self.platforms.keys(), known, self.keys, self.ranges)
        for node in nodes:
            if (own := self.shipped.get(node.platform)) and (said := next(expected.far_off_limits(node, own), "")):
                raise node.wrong(said, consistency.HINT)
