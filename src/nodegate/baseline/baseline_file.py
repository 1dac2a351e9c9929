"""One baseline file: read strictly, so that a typing error is an error with its line and never a missing limit."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nodegate.baseline.entry import DIRECTIONS, MOST_TOLERANCE, SWITCHES, Entry, is_plain_number, switch_words, unit_for
from nodegate.baseline.parameters import AT_LEAST, shown
from nodegate.errors import UsageError
from nodegate.files import strict_yaml
from nodegate.files.strict_yaml import Loaded, did_you_mean
from nodegate.files.typed_yaml import Reader, mapping, names

EVERYWHERE = "*"
_FILE_WORDS = ("platform", "title", "match", "like", "without", "limits")
_MATCH_WORDS = ("gpu_pci_ids", "nvswitch", "system")
_NUMBERS = ("tolerance", "floor", "peak", "best_value", "spread", "looks")
_TEXTS = ("peak_source", "note", "deliberate")
_VALUE_WORDS = ("value", "source", "parameters", *_NUMBERS, *_TEXTS)
_ENTRY_WORDS = (*_VALUE_WORDS, "unit", "direction", "variants")
_CLAUSE = "clause"  # of a policy, which names one for each of its limits
_SHARED_WORDS = ("unit", "direction", "peak", "peak_source", "note", "variants")  # of an entry with variants
_LEAST_OF_PEAK = 0.2  # no good device reaches less of what physics allows: such a value is in another unit
_KEY = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+)+")
_PLATFORM = re.compile(r"[a-z0-9][a-z0-9.-]*")
_PCI_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}")


@dataclass(frozen=True)
class Match:
    """How the hardware of a platform is recognised: never by a count, which a lost device would change."""

    gpu_pci_ids: tuple[str, ...]
    nvswitch: bool | None = None
    system: tuple[str, ...] = ()  # what "vendor product" of DMI begins with; () on any machine


@dataclass(frozen=True)
class BaselineFile:
    """A baseline file as it was read; of several about one platform what they say together, by the first one's name."""

    file: str
    sha256: str
    platform: str
    title: str
    match: Match | None
    limits: Mapping[str, Entry]
    like: str = ""  # the platform whose limits hold but for those of this file
    without: tuple[str, ...] = ()  # those of its limits that do not hold here

    @property
    def gpus(self) -> int | None:
        """How many GPUs the platform has; None where servers differ."""
        count = self.limits.get("gpu.count")
        return count.value if count is not None and isinstance(count.value, int) else None


def read(path: Path, shown: str = "") -> BaselineFile:
    """Read one baseline file; `shown` is its name in messages.

    Raises:
        UsageError: it cannot be read, or something in it is not as docs/guide/baselines.md says, with file and line.
    """
    return parse(strict_yaml.load_file(path, shown))


def parse(loaded: Loaded) -> BaselineFile:
    """The baseline file in this YAML document.

    Raises:
        UsageError: something in it is not as docs/guide/baselines.md says.
    """
    reader = _Reader(loaded)
    top = reader.mapping((), "a baseline file", _FILE_WORDS)
    platform = reader.text(top, "platform", ())
    if platform != EVERYWHERE and not _PLATFORM.fullmatch(platform):
        hint = "use lower-case letters, digits, - and ."
        raise reader.wrong(("platform",), f"{platform!r} is not a valid platform name", hint)
    if platform == EVERYWHERE and "match" in top:
        raise reader.wrong(("match",), 'platform "*" applies everywhere and has no match', "remove it")
    limits = reader.mapping(("limits",), "limits") if "limits" in top else {}
    return BaselineFile(
        file=loaded.name,
        sha256=loaded.sha256,
        platform=platform,
        title=reader.text(top, "title", ()) if "title" in top else "",
        match=reader.match() if "match" in top else None,
        limits={key: reader.entry(key) for key in limits},
        like=reader.text(top, "like", ()) if "like" in top else "",
        without=reader.texts(top, "without", ()),
    )


def limits_of_policy(loaded: Loaded, platforms: str, policy: str) -> Mapping[str, Entry]:
    """The limits of a policy file for these platforms: entries as in a baseline file, each with its clause.

    Raises:
        UsageError: something in it is not as docs/guide/policies.md says.
    """
    reader = _Reader(loaded, ("limits", platforms), policy)
    return {key: reader.entry(key) for key in reader.mapping(reader.where, f"limits of {platforms}")}


class _Reader(Reader):
    """The strict reader of one file: every complaint has its line.

    Args:
        loaded: the file.
        where: the limits in it.
        policy: the name of the policy whose limits they are; empty for a baseline file.
    """

    page = "see nodegate explain baselines"

    def __init__(self, loaded: Loaded, where: tuple[str, ...] = ("limits",), policy: str = "") -> None:
        super().__init__(loaded)
        self.where, self.policy = where, policy

    def wrong(self, path: tuple[object, ...], message: str, advice: str = "") -> UsageError:
        return self.loaded.wrong(message, path, advice)

    def texts(self, found: Mapping[str, object], word: str, path: tuple[object, ...]) -> tuple[str, ...]:
        return names(self.loaded, (*path, word), found.get(word, []), what="texts", hint=self.page)

    def match(self) -> Match:
        found = self.mapping(("match",), "match", _MATCH_WORDS)
        ids = found.get("gpu_pci_ids")
        if not isinstance(ids, list) or not ids:
            raise self.wrong(("match",), "match needs gpu_pci_ids: a list such as [10de:2330]")
        for each in ids:
            if not isinstance(each, str) or not _PCI_ID.fullmatch(each):
                hint = 'write it as lspci -n does: "10de:2330"'
                raise self.wrong(("match", "gpu_pci_ids"), f"{each!r} is not a PCI id", hint)
        nvswitch = found.get("nvswitch")
        if nvswitch is not None and not isinstance(nvswitch, bool):
            raise self.wrong(("match", "nvswitch"), f"nvswitch must be true or false, not {nvswitch!r}")
        return Match(tuple(ids), nvswitch, self.texts(found, "system", ("match",)))

    def entry(self, key: str) -> Entry:
        path = (*self.where, key)
        if not _KEY.fullmatch(key):
            hint = "a key is subject.what_unit, such as gpu.power_limit_w"
            raise self.wrong(path, f"{key!r} is not a valid limit key", hint)
        found = self.mapping(path, key, (*_ENTRY_WORDS, _CLAUSE) if self.policy else _ENTRY_WORDS)
        clause = f"policy {self.policy}, clause {self.text(found, _CLAUSE, path)}" if self.policy else ""
        found = {word: value for word, value in found.items() if word != _CLAUSE}
        entry = self._several(key, found, path) if "variants" in found else self._one(key, found, path)
        return replace(entry, clause=clause, variants=tuple(replace(each, clause=clause) for each in entry.variants))

    def _one(self, key: str, found: Mapping[str, object], path: tuple[object, ...]) -> Entry:
        if "value" not in found and "peak" not in found:
            raise self.wrong(path, f"{key} has no value")
        more: dict[str, Any] = {word: self.number(found, word, path) for word in _NUMBERS if word in found}
        more |= {word: self.text(found, word, path) for word in _TEXTS if word in found}
        entry = Entry(
            key=key,
            value=self._value(key, found["value"], path) if "value" in found else None,
            unit=self._unit(key, found, path),
            source=self.text(found, "source", path),
            direction=self._direction(found, path),
            parameters=self._parameters(found, path),
            file=self.loaded.name,
            line=self.loaded.line(path),
            **more,
        )
        self._consistent(entry, path)
        return entry

    def _several(self, key: str, found: Mapping[str, object], path: tuple[str, ...]) -> Entry:
        """An entry whose values have their own parameters; unit, direction and peak are common to them."""
        for word in found:
            if word not in _SHARED_WORDS:
                raise self.wrong((*path, word), f"{key}: {word} belongs in each of the variants, not next to them")
        listed = found["variants"]
        if not isinstance(listed, list) or not listed:
            raise self.wrong((*path, "variants"), f"{key}: variants must be a list", self.page)
        shared = {word: found[word] for word in _SHARED_WORDS if word in found and word != "variants"}
        variants: list[Entry] = []
        for at, each in enumerate(listed):
            where = (*path, "variants", at)
            own = mapping(self.loaded, where, each, f"{key}: a variant", _VALUE_WORDS, hint=self.page)
            if not own.get("parameters"):
                raise self.wrong(where, f"{key}: a variant needs parameters, which distinguish it from the others")
            variants.append(self._one(key, {**shared, **own}, where))
        for at, variant in enumerate(variants):
            if any(variant.parameters == earlier.parameters for earlier in variants[:at]):
                where = (*path, "variants", at)
                raise self.wrong(where, f"{key}: two variants for {shown(variant.parameters)}", "keep one of them")
        return replace(variants[0], line=self.loaded.line(path), variants=tuple(variants))

    def _parameters(self, found: Mapping[str, object], path: tuple[object, ...]) -> Mapping[str, object]:
        path = (*path, "parameters")
        given = mapping(self.loaded, path, found.get("parameters", {}), "parameters", hint=self.page)
        for name, value in given.items():
            items = value if isinstance(value, list) and value else [value]
            if not all(isinstance(item, (bool, int, float, str)) for item in items):
                what = f"{value!r} is not a number, text, true or false, nor a list of those"
                raise self.wrong((*path, name), f"{name}: {what}")
            if name.endswith(AT_LEAST) and not is_plain_number(value):
                raise self.wrong((*path, name), f"{name} must be a number, not {value!r}")
        return given

    def _value(self, key: str, value: object, path: tuple[object, ...]) -> object:
        if key in SWITCHES:
            value = {True: "on", False: "off"}[value] if isinstance(value, bool) else value
            if value not in (words := switch_words(key)):
                wanted = " or ".join(f'"{word}"' for word in words)
                raise self.wrong((*path, "value"), f"{key} must be {wanted}, not {value!r}")
            return value
        items = value if isinstance(value, list) else [value]
        for item in items:
            if not isinstance(item, (bool, int, float, str)) or item != item:  # noqa: PLR0124 - not a number
                raise self.wrong((*path, "value"), f"{key}: {item!r} is not a number, text, true or false")
        return tuple(value) if isinstance(value, list) else value

    def _unit(self, key: str, found: Mapping[str, object], path: tuple[object, ...]) -> str:
        if "unit" not in found:
            raise self.wrong(path, f"{key} has no unit", 'write unit: "" for a word or a version')
        unit = self.text(found, "unit", path, empty=True)
        allowed = unit_for(key)
        if allowed and unit not in allowed:
            raise self.wrong((*path, "unit"), f"{key} is in {' or '.join(allowed)} by its name, not in {unit!r}")
        return unit

    def _direction(self, found: Mapping[str, object], path: tuple[object, ...]) -> str:
        direction = found.get("direction", "")
        if direction and direction not in DIRECTIONS:
            hint = did_you_mean(str(direction), DIRECTIONS)
            raise self.wrong((*path, "direction"), f"unknown direction {direction!r}", hint)
        return str(direction)

    def _consistent(self, entry: Entry, path: tuple[object, ...]) -> None:
        numeric = is_plain_number(entry.value)
        if entry.tolerance and not (numeric and entry.direction in DIRECTIONS[:2]):
            raise self.wrong(path, f"{entry.key}: a tolerance needs a number and direction: at least or at most")
        if not 0 <= entry.tolerance <= MOST_TOLERANCE:
            most = f"and at most {MOST_TOLERANCE}: more lets everything pass"
            raise self.wrong((*path, "tolerance"), f"a tolerance is a part of one: 0.05 for 5 %, {most}")
        if entry.floor is not None and not (numeric and entry.direction == "at least"):
            raise self.wrong((*path, "floor"), f"{entry.key}: a floor needs a number and direction: at least")
        if wrong := off_peak(entry):
            raise self.wrong((*path, "value"), wrong, "is it in another unit?")


def off_peak(entry: Entry) -> str:
    """How a value contradicts its peak; empty where it does not."""
    if entry.peak is None or entry.value is None:
        return ""
    if not is_plain_number(entry.value) or entry.value > entry.peak:
        return f"{entry.key}: the peak is what nothing can exceed, this value either"
    if entry.direction != "at most" and entry.value < entry.peak * _LEAST_OF_PEAK:
        return f"{entry.key}: {entry.value} {entry.unit} is less than a fifth of its peak of {entry.peak}"
    return ""
