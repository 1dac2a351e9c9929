"""NCCL's settings on a node: which of them harm every job, and which name what is not there."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nodegate.baseline.baseline import Baseline
from nodegate.knowledge.tables import settings as table
from nodegate.probe.environment import Environment
from nodegate.probe.rdma import Rdma
from nodegate.probe.software import Software
from nodegate.records.verdict import Verdict, worst
from nodegate.subjects.rdma import rails
from nodegate.unknown import Known, Unknown, Why

Harm = tuple[str, str, Verdict, str]  # name, value, verdict, why
MAX_SHOWN = 80
_MOST_NAMES = 8
# Interfaces that the probe does not list because no hardware is behind them.
_VIRTUAL_INTERFACE = re.compile(
    r"(lo|docker\d*|br-?\w*|bond\d+\S*|team\d+|veth\w*|vlan\S+|\S+\.\d+|tun\d+|wg\d+|cali\w+|virbr\d+)\Z"
)
# Names that are of libraries: one may be where nobody looks, in an image or an environment of a user.
_LIBRARY = re.compile(r"lib|.*\.so\b|(cudnn|nccl|cublas|cufft|cusparse|cusolver|nvshmem|tensorrt)[0-9.]*$")
_NO_LIBRARY = Unknown(Why.MISSING, "neither the loader's cache nor the usual library folders have it")


def origins(environment: Environment) -> Mapping[str, Known[Mapping[str, str]]]:
    """The settings by the place where they are set."""
    return {
        "login environment": environment.variables,
        "/etc/nccl.conf": environment.nccl_conf,
        "~/.nccl.conf": environment.user_nccl_conf,
    }


def harmful(settings: Mapping[str, str], has: Mapping[str, bool]) -> Iterator[Harm]:
    """The settings that the table names, where the node has what they harm; the worst entry of a name counts."""
    for name, value in settings.items():
        hits = [row for row in table() if row.name == name.strip() and row.matches(value) and has[row.needs]]
        if hits:
            verdict = worst(row.verdict for row in hits)
            yield name, value[:MAX_SHOWN], verdict, next(row.meaning for row in hits if row.verdict is verdict)


def dangling(
    settings: Mapping[str, str], *, interfaces: Collection[str], ports: Collection[str], own: Rails, otherwise: Verdict
) -> Iterator[Harm]:
    """Settings that name what this node does not have or leave out rails, or a plugin path (warn: not read).

    `ports` are those of all adapters, as `mlx5_0:1`, `own` those that carry jobs; `otherwise` is the verdict of a list
    that leaves out rails.
    """
    value = settings.get("NCCL_SOCKET_IFNAME", "")
    if value and (fault := _of_interfaces(value, interfaces)):
        yield "NCCL_SOCKET_IFNAME", value[:MAX_SHOWN], *fault
    value = settings.get("NCCL_IB_HCA", "")
    if value and (fault := _of_adapters(value, ports, own, otherwise)):
        yield "NCCL_IB_HCA", value[:MAX_SHOWN], *fault
    value = settings.get("NCCL_NET_PLUGIN", "")
    if value and value.lower() not in ("none", ""):
        why = "a network plugin is set for every job: NCCL stops or falls back to TCP if it cannot load it"
        yield "NCCL_NET_PLUGIN", value[:MAX_SHOWN], Verdict.WARN, why


def missing_files(settings: Mapping[str, str], files: Mapping[str, Known[bool]]) -> Iterator[Harm]:
    """Settings that name a file which is not there."""
    for name, value in settings.items():
        if files.get(value) is False:
            yield name, value[:MAX_SHOWN], Verdict.WARN, "there is no such file: NCCL goes on without it, or stops"


def rails_of(rdma: Rdma, baseline: Baseline) -> Rails:
    """The rails of a node, and how many its platform has."""
    found = rails(rdma, rate=baseline.find_number("rdma.rate_gbps"), layer=baseline.find("rdma.link_layer"))
    count = baseline.find_number("rdma.rails")
    return Rails(tuple(f"{each.device}:{each.port}" for each in found), count.value if count else 0)


def where(software: Software, name: str) -> Known[str]:
    """Where a required program is, or which version; "" when it is not there."""
    if name == "cuda":
        found = software.cuda
        return found if isinstance(found, Unknown) else max(found.values(), default="", key=_newest)
    if name == "nccl":
        libraries = software.nccl
        return libraries if isinstance(libraries, Unknown) else next((each.path for each in libraries), _NO_LIBRARY)
    return software.nvcc if name == "nvcc" else _program_or_package(software, name)


def _program_or_package(software: Software, name: str) -> Known[str]:
    packages = {} if isinstance(software.packages, Unknown) else software.packages
    if found := software.tools.get(name) or packages.get(name):
        return found
    if _LIBRARY.match(name):
        libraries = software.libraries
        return libraries if isinstance(libraries, Unknown) else libraries.get(name) or _NO_LIBRARY
    return "" if name in software.tools else Unknown(Why.MISSING, "the recording release did not look for it")


def _newest(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,6}", version))


def _of_interfaces(value: str, present: Collection[str]) -> tuple[Verdict, str] | None:
    listed = _Listed.of(value)
    virtual = any(_VIRTUAL_INTERFACE.match(name) for name in listed.names)
    if not virtual and not listed.chosen(present):
        return Verdict.FAIL, "no interface of this node matches"
    absent = [name for name in listed.absent(present) if not _VIRTUAL_INTERFACE.match(name)]
    return (Verdict.WARN, _not_there(absent)) if absent else None


def _of_adapters(value: str, ports: Collection[str], own: Rails, otherwise: Verdict) -> tuple[Verdict, str] | None:
    listed = _Listed.of(value)
    chosen = listed.chosen(ports)
    if not chosen:
        return Verdict.FAIL, "no RDMA adapter of this node matches"
    left = [each for each in own.ports if each not in chosen] if len(chosen & {*own.ports}) < own.count else []
    said = [_not_there(absent)] if (absent := listed.absent(ports)) else []
    if left:
        said.append(f"every job goes without {_names(each.removesuffix(':1') for each in left)}")
    return (otherwise if left else Verdict.WARN, "; ".join(said)) if said else None


def _not_there(absent: Sequence[str]) -> str:
    return f"{_names(absent)} {'is' if len(absent) == 1 else 'are'} not there"


def _names(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join([*listed[:_MOST_NAMES], *([f"{len(listed) - _MOST_NAMES} more"] if listed[_MOST_NAMES:] else [])])


@dataclass(frozen=True)
class Rails:
    """The ports that carry jobs, as `mlx5_0:1`, and how many the platform has; 0 if it has no number of them."""

    ports: tuple[str, ...] = ()
    count: float = 0


@dataclass(frozen=True)
class _Listed:
    """A list as NCCL reads it: by the beginnings of names, exactly after "=", all but those after "^"."""

    names: tuple[str, ...]
    is_exact: bool
    is_not: bool

    @staticmethod
    def of(value: str) -> _Listed:
        plain = value.removeprefix("^")
        names = tuple(part.strip().lstrip("=") for part in plain.split(",") if part.strip())
        return _Listed(names, plain.startswith("="), value.startswith("^"))

    def chosen(self, present: Collection[str]) -> frozenset[str]:
        """What of this the list means."""
        fits = {each for each in present if any(self._means(name, each) for name in self.names)}
        return frozenset({*present} - fits if self.is_not else fits)

    def absent(self, present: Collection[str]) -> list[str]:
        """The names of one device each of which there is none; a beginning such as "mlx5" is no name."""
        one = (name for name in self.names if not self.is_not and (self.is_exact or name[-1:].isdigit()))
        return [name for name in one if not any(self._means(name, each) for each in present)]

    def _means(self, name: str, present: str) -> bool:
        name, _, port = name.partition(":")
        device, _, own = present.partition(":")
        fits = device == name if self.is_exact else device.startswith(name)
        return fits and (not port or not own or port == own)
