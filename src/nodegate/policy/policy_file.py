"""A policy file, shipped (policies/NAME.yaml) or a site's own: read strictly, so that a slip is never a mild policy."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nodegate.baseline.merge import Overlay
from nodegate.claims.table import claims
from nodegate.errors import UsageError
from nodegate.files import strict_yaml
from nodegate.files.paths import POLICIES, suite_folder
from nodegate.files.strict_yaml import did_you_mean
from nodegate.files.typed_yaml import Reader, names
from nodegate.metric import Statistic
from nodegate.policy.policy import OTHER, PLATFORM, ClassRule, DefectClass, Item, Policy

Where = tuple[object, ...]
MOST_MAY_FAIL_PERCENT = 50.0  # a policy under which most nodes may fail accepts anything
MOST_DAYS = 3650
_FILE_WORDS = ("policy", "title", "source", "platforms", "classes", "claims", "limits", "not_measured")
_CLASS_WORDS = {
    DefectClass.A: ("clause", "may_fail_percent"),
    DefectClass.B: ("clause", "may_fail_percent", "days"),
    DefectClass.C: ("clause",),
}
_CLAIM_WORDS = ("class", "clause", "statistic", "may_fail_percent")
_UNMEASURED_WORDS = ("class", "clause", "title")


@dataclass(frozen=True)
class PolicyFile:
    """A policy, and the limits that it lays over the baselines."""

    policy: Policy
    limits: Overlay


def shipped() -> tuple[str, ...]:
    """The names of the policies that come with this installation."""
    return tuple(sorted(path.stem for path in suite_folder(POLICIES).glob("*.yaml")))


def place(given: str) -> Path:
    """The file of a policy: that of a shipped name, else the file that was given.

    Raises:
        UsageError: there is neither.
    """
    if given in shipped():
        return suite_folder(POLICIES) / f"{given}.yaml"
    path = Path(given)
    if not (path.is_file() or path.is_fifo()):
        hint = did_you_mean(given, shipped())
        raise UsageError(f"--policy {given}: no policy has this name, and there is no such file", hint=hint)
    return path


def read(given: str) -> PolicyFile:
    """A policy by its name or its file.

    Raises:
        UsageError: there is none, or something in it is not as docs/guide/policies.md says, with file and line.
    """
    path = place(given)
    is_shipped = path.parent == suite_folder(POLICIES)
    loaded = strict_yaml.load_file(path, f"policies/{path.name}" if is_shipped else "")
    return _Reader(loaded).file()


class _Reader(Reader):
    page, text_hint = "see nodegate explain policies", 'write a number in quotes: "3.1"'

    def file(self) -> PolicyFile:
        top = self.mapping((), "a policy file", _FILE_WORDS)
        name = self.text(top, "policy", ())
        limits = self.mapping(("limits",), "limits") if "limits" in top else {}
        overlay = Overlay.of(self.loaded, limits, name)
        classes = self.classes()
        items = {**self.claims(classes, top), **self.not_measured(classes, top)}
        title, source = (self.text(top, word, ()) for word in ("title", "source"))
        given = top.get("platforms", ["*"]) or None
        platforms = names(self.loaded, ("platforms",), given, what="patterns", hint='["hgx-h100-*"]')
        return PolicyFile(Policy(name, title, source, self.loaded.sha256, classes, items, platforms), overlay)

    def classes(self) -> Mapping[DefectClass, ClassRule]:
        found = self.mapping(("classes",), "classes", [each.value for each in DefectClass])
        if DefectClass.A.value not in found:
            raise self.loaded.wrong("classes lacks A", ("classes",), "A: {may_fail_percent: 0, clause: ..}")
        return {DefectClass(name): self.of_class(DefectClass(name)) for name in found}

    def of_class(self, sort: DefectClass) -> ClassRule:
        path = ("classes", sort.value)
        found = self.mapping(path, sort.value, _CLASS_WORDS[sort])
        for word in _CLASS_WORDS[sort]:
            if word not in found:
                raise self.loaded.wrong(f"class {sort.value} ({sort.meaning}) has no {word}", path)
        share = self.share(found, path) if "may_fail_percent" in found else 100.0
        days = self.days(found, path) if "days" in found else 0
        return ClassRule(self.text(found, "clause", path), share, days)

    def claims(self, classes: Mapping[DefectClass, ClassRule], top: Mapping[str, object]) -> dict[str, Item]:
        names = [*(claim.name for claim in claims()), OTHER, PLATFORM]
        found = {}
        for name in self.mapping(("claims",), "claims", names) if "claims" in top else ():
            path = ("claims", name)
            entry = self.mapping(path, name, _CLAIM_WORDS)
            sort, clause = self.sort(entry, classes, path), self.text(entry, "clause", path)
            share = self.share(entry, path) if "may_fail_percent" in entry else None
            found[name] = Item(name, sort, clause, self.statistic(entry, path), share)
        return found

    def not_measured(self, classes: Mapping[DefectClass, ClassRule], top: Mapping[str, object]) -> dict[str, Item]:
        known = {claim.name for claim in claims()}
        found = {}
        for name in self.mapping(("not_measured",), "not_measured") if "not_measured" in top else ():
            path = ("not_measured", name)
            if name in known:
                raise self.loaded.wrong(f"{name} is a claim that nodegate measures", path, "name it under claims")
            entry = self.mapping(path, name, _UNMEASURED_WORDS)
            clause, title = (self.text(entry, word, path) for word in ("clause", "title"))
            found[name] = Item(name, self.sort(entry, classes, path), clause, title=title)
        return found

    def sort(self, found: Mapping[str, object], classes: Mapping[DefectClass, ClassRule], path: Where) -> DefectClass:
        value = found.get("class")
        if value not in set(DefectClass):
            raise self.loaded.wrong(f"{path[-1]}: class must be A, B or C, not {value!r}", (*path, "class"))
        sort = DefectClass(value)
        if sort not in classes:
            raise self.loaded.wrong(f"{path[-1]} is of class {sort.value}, which classes does not define", path)
        return sort

    def statistic(self, found: Mapping[str, object], path: Where) -> Statistic:
        value = found.get("statistic", Statistic.USUAL.value)
        known = [each.value for each in Statistic]
        if value not in known:
            raise self.loaded.wrong(f"{path[-1]}: no statistic {value!r}", (*path, "statistic"), " or ".join(known))
        return Statistic(value)

    def share(self, found: Mapping[str, object], path: Where) -> float:
        value = self.number(found, "may_fail_percent", path)
        if not 0 <= value <= MOST_MAY_FAIL_PERCENT:
            message = f"may_fail_percent: {value:g} is not between 0 and {MOST_MAY_FAIL_PERCENT:g} % of the nodes"
            hint = "class C is for defects that never block an acceptance"
            raise self.loaded.wrong(message, (*path, "may_fail_percent"), hint)
        return float(value)

    def days(self, found: Mapping[str, object], path: Where) -> int:
        value = found["days"]
        if type(value) is not int or not 0 < value <= MOST_DAYS:
            raise self.loaded.wrong(f"days is a number of days from 1 to {MOST_DAYS}", (*path, "days"))
        return value
