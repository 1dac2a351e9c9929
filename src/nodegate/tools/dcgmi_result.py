"""What a run of dcgmi diag says: its tests, who passed them, and what it warns of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from nodegate.errors import CannotMeasure
from nodegate.probe.readings import shown
from nodegate.unknown import Known, Unknown, Why

if TYPE_CHECKING:
    from collections.abc import Iterable

NEXT = "run dcgmi diag on the node by hand and look at what it prints; is nvidia-dcgm (nv-hostengine) running?"
_NO_TABLE = "no table of severities for DCGM "
_VERSION = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})(?![0-9])")
# dcgmlib/dcgm_errors.h by tag. Between the last release of one table and the first of the other nothing is known.
_OLD = ("MONITOR", "ISOLATE", "UNKNOWN")
_NEW = ("NONE", "MONITOR", "ISOLATE", "UNKNOWN", "TRIAGE", "CONFIG", "RESET")
_OLD_FROM, _OLD_TO = (2, 0, 0), (3, 2, 6)
_NEW_FROM, _NEW_BELOW = (3, 3, 1), (5, 0, 0)


class Status(str, Enum):
    """How a test ended. DCGM 4 writes a GPU's warning as Fail, and nothing at all for a test that was not run."""

    PASS = "pass"  # noqa: S105 - no password
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"
    NOT_RUN = "not run"


_WORST_FIRST = (Status.FAIL, Status.WARN, Status.NOT_RUN, Status.SKIP, Status.PASS)
_WORDS = {status.value: status for status in Status} | {"skipped": Status.SKIP, "": Status.NOT_RUN}


@dataclass(frozen=True)
class Result:
    """How a test ended for one entity: "GPU 3", "CPU 0", or "" for all of them together."""

    entity: str
    status: Status


@dataclass(frozen=True)
class Warned:
    """A warning. Only JSON of newer releases numbers it; `severity` is DCGM's word for its release's number."""

    entity: str
    message: str
    error_id: Known[int]
    error_category: Known[int]
    severity: Known[str]


@dataclass(frozen=True)
class Test:
    """One test of a category (Deployment, Integration, Hardware, Stress)."""

    __test__ = False  # it is no test of pytest's

    category: str
    name: str
    results: tuple[Result, ...]
    warnings: tuple[Warned, ...] = ()
    info: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """The worst of its results: a pass only when every one of them is a pass."""
        return worst(each.status for each in self.results)

    def of(self, entity: str) -> Status:
        """How it ended for one entity; a result for all counts only in a test that names nobody."""
        own = [each.status for each in self.results if each.entity == entity]
        return worst(own) if any(each.entity for each in self.results) else self.status


@dataclass(frozen=True)
class Diagnosis:
    """A whole run.

    `listed` are the GPUs that the run was for, where it says so (DCGM 4, JSON). `errors` belong to no test.
    `ended` is false for a table that is cut off behind a failure.
    """

    version: Known[str]
    driver: Known[str]
    tests: tuple[Test, ...]
    listed: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    ended: bool = True

    @property
    def overall(self) -> Status:
        """A pass only when every test passed for every GPU; `skip` and `not run` say that something was not judged."""
        failed = [Status.FAIL] if self.errors else []
        untouched = [Status.NOT_RUN] if not self.ended or self._left_out() else []
        return worst([*failed, *untouched, *(test.status for test in self.tests)])

    @property
    def gpus(self) -> tuple[str, ...]:
        """The GPUs that the run was for: those it lists, and those that any test names."""
        named = (each.entity for test in self.tests for each in test.results if each.entity.startswith("GPU "))
        return tuple(dict.fromkeys((*self.listed, *named)))

    @property
    def not_judged(self) -> tuple[str, ...]:
        """What was skipped or not run, as "memory GPU 0"; a GPU that no test names stands by itself."""
        skipped = (
            f"{test.name} {each.entity}".rstrip()
            for test in self.tests
            for each in test.results or (Result("", Status.NOT_RUN),)
            if each.status in (Status.SKIP, Status.NOT_RUN)
        )
        return (*skipped, *self._left_out())

    def _left_out(self) -> tuple[str, ...]:
        """GPUs without a result: dcgmi leaves out of a test those that it did not run it on."""
        gpus = self.gpus
        tests = [(test.name, {each.entity for each in test.results}) for test in self.tests]
        by_gpu = [(name, named) for name, named in tests if not named.isdisjoint(gpus)]
        anywhere = {gpu for _, named in by_gpu for gpu in named}
        nowhere = [gpu for gpu in gpus if gpu not in anywhere]
        known = [gpu for gpu in gpus if gpu in anywhere]
        return (*nowhere, *(f"{name} {gpu}" for name, named in by_gpu for gpu in known if gpu not in named))


def worst(statuses: Iterable[Status]) -> Status:
    """The worst of several; `not run` when there is none."""
    found = set(statuses)
    return next((status for status in _WORST_FIRST if status in found), Status.NOT_RUN)


def status_in(word: object) -> Status:
    """A status as dcgmi writes it, in any case.

    Raises:
        CannotMeasure: it is none of its words.
    """
    status = _WORDS.get(word.strip().lower()) if isinstance(word, str) else None
    if status is None:
        raise bad(f"has a status that is none: {shown(word)}")
    return status


def severity(code: Known[int], version: Known[str]) -> Known[str]:
    """The word for an error_severity: its numbers changed between the releases 3.2.6 and 3.3.1."""
    if isinstance(code, Unknown):
        return code
    if isinstance(version, Unknown):
        return Unknown(Why.MISSING, f"severity {code} of an unknown release of DCGM")
    match = _VERSION.match(version)
    release = tuple(int(part) for part in match.groups()) if match else ()
    words: tuple[str, ...]
    if _OLD_FROM <= release <= _OLD_TO:
        words = _OLD
    elif _NEW_FROM <= release < _NEW_BELOW:
        words = _NEW
    else:
        return Unknown(Why.NOT_SUPPORTED, f"{_NO_TABLE}{version} (severity {code})")
    return words[code] if 0 <= code < len(words) else Unknown(Why.FAILED, f"DCGM {version} has no severity {code}")


def bad(what: str) -> CannotMeasure:
    """The refusal of an output."""
    return CannotMeasure(f"the output of dcgmi diag {what}", next_step=NEXT)
