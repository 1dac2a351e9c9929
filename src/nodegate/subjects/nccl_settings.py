"""NCCL's settings on a node: which of them harm every job, and which name what is not there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nodegate.knowledge.tables import settings as table
from nodegate.records.verdict import Verdict, worst
from nodegate.unknown import Known, Unknown, Why

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from nodegate.probe.environment import Environment
    from nodegate.probe.software import Software

Harm = tuple[str, str, Verdict, str]  # name, value, verdict, why
MAX_SHOWN = 80
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


def dangling(settings: Mapping[str, str], *, interfaces: Collection[str], adapters: Collection[str]) -> Iterator[Harm]:
    """Settings that name an interface or adapter which this node does not have, or a plugin path (warn: not read)."""
    value = settings.get("NCCL_SOCKET_IFNAME", "")
    if value and not any(_VIRTUAL_INTERFACE.match(name) for name in _bare(value)) and not _names_one(value, interfaces):
        yield "NCCL_SOCKET_IFNAME", value[:MAX_SHOWN], Verdict.FAIL, "no interface of this node matches"
    value = settings.get("NCCL_IB_HCA", "")
    if value and not _names_one(value, adapters):
        yield "NCCL_IB_HCA", value[:MAX_SHOWN], Verdict.FAIL, "no RDMA adapter of this node matches"
    value = settings.get("NCCL_NET_PLUGIN", "")
    if value and value.lower() not in ("none", ""):
        why = "a network plugin is set for every job: NCCL stops or falls back to TCP if it cannot load it"
        yield "NCCL_NET_PLUGIN", value[:MAX_SHOWN], Verdict.WARN, why


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


def _bare(value: str) -> list[str]:
    """The names in a list as NCCL writes them: "=eth0,eth1", "^docker", "mlx5_0:1"."""
    return [part.strip().lstrip("=").partition(":")[0] for part in value.lstrip("^").split(",") if part.strip()]


def _names_one(value: str, present: Collection[str]) -> bool:
    """Whether a list matches at least one that is there: by prefix, exactly after "=", all but those after "^"."""
    exact = value.lstrip("^").startswith("=")
    fits = {
        name for name in present for wanted in _bare(value) if (name == wanted if exact else name.startswith(wanted))
    }
    return len(fits) < len(present) if value.startswith("^") else bool(fits)
