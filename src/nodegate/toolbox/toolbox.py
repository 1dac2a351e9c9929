"""Where the tools of a node are: its PATH, the usual folders, the inventory, a container image, or nodegate itself."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from nodegate.errors import CannotMeasure, tried
from nodegate.node import Node
from nodegate.node_settings.table import OWN_KERNELS
from nodegate.toolbox.carried import ORIGIN, Brought, Carried, bring
from nodegate.toolbox.found import Found, look, look_inside
from nodegate.toolbox.settings import tool_settings
from nodegate.toolbox.tool_list import MPI, NAMES, USUAL_FOLDERS, CublasPlaces, how_to_get, how_to_start, lacks
from nodegate.transport.session import Session

LOOK_S = 40.0
T = TypeVar("T")


@dataclass(frozen=True)
class Tool:
    """A program that was found on a node. `argv` starts it, a container included; `origin` says where it was found.

    The last argument of `argv` is the program's own path, inside the container if it is in one.
    """

    name: str
    argv: tuple[str, ...]
    origin: str


class Lacking(CannotMeasure):
    """No program with the name of the tool was found, as opposed to one that cannot start."""


class _Once(Generic[T]):
    """A value that is read once, or refused once: a hung node is not queried again for each tool."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.value: T | CannotMeasure | None = None

    def get(self) -> T:
        """The value. Raises CannotMeasure with the message of the first time, and Unreachable."""
        if self.value is None:
            self.value = tried(self._make)
        said = self.value
        if isinstance(said, CannotMeasure):
            raise CannotMeasure(said.bare, next_step=said.next_step, lacks=said.lacks, whose=said.whose)
        return said


class Toolbox:
    """The tools of a node, looked for once, when the first is asked for. Safe to use from several threads.

    In this order: the inventory's nodegate_tools, what --tools brings, nodegate_tool_paths, PATH, the usual folders,
    the container image. A program that cannot start (a library is missing, it is for another machine) is skipped, and
    named if there is no other. The login's tools come first, then, if the inventory says `become`, root's; an
    image is started as root there.

    The `node`'s inventory variables say where to search; `carried` are the tools of --tools DIR.

    Raises:
        UsageError: the inventory's settings for tools are invalid.
    """

    def __init__(self, session: Session, node: Node, *, carried: Carried | None = None) -> None:
        self._session, self._node = session, node
        self._settings = tool_settings(node)
        self._carried = carried
        self._brought: _Once[Brought] | None = _Once(lambda: bring(carried, session, node)) if carried else None
        self._known = _Once(lambda: self._look(NAMES))
        self._others: dict[str, _Once[dict[str, tuple[Found, ...]]]] = {}
        image = self._settings.image
        self._inside = _Once(lambda: look_inside(image, session, node, NAMES)) if image else None
        self._lock = threading.RLock()

    def find(self, *names: str) -> Tool:
        """The first of these names that the node has.

        A name that ends in _mpi also means the tool without it, if that is built with MPI.

        Raises:
            CannotMeasure: it has none; with one line on how to get it.
            Unreachable: the connection broke.
        """
        with self._lock:
            refused: list[tuple[str, Found]] = []
            for name in names:
                for found in self._candidates(name):
                    if not found.why_not:
                        return Tool(name, found.argv, found.origin)
                    refused.append((name, found))
            raise self._refusal(names, refused)

    def has(self, names: Sequence[str]) -> frozenset[str]:
        """Which of these the node has. Raises Unreachable if the connection broke."""
        return frozenset(name for name in names if isinstance(tried(partial(self.find, name)), Tool))

    def cublas(self) -> CublasPlaces:
        """Where a burn looks for cuBLAS; brings the one of --tools to the node.

        Raises:
            Unreachable: the connection broke.
        """
        given = self._settings.cublas
        if given == OWN_KERNELS:
            return CublasPlaces(own_kernels=True)
        places = (("nodegate_cublas", given),) if given else ()
        if self._brought is None or self._carried is None or not self._carried.cublas:
            return CublasPlaces(places)
        with self._lock:
            there = tried(self._brought.get)
        if isinstance(there, CannotMeasure):
            return CublasPlaces(places, not_brought=there.reason)
        brought = [(ORIGIN, f"{there.folder}/{each}".rstrip("/")) for each in self._carried.cublas]
        return CublasPlaces((*places, *brought))

    def close(self) -> None:
        """Remove what was brought to the node; the end of the session does it too, some seconds later.

        Raises:
            Unreachable: the connection broke; then the node removes it by itself.
        """
        with self._lock:
            if self._brought is not None and isinstance(self._brought.value, Brought):
                self._brought.value.holder.stop()

    def _candidates(self, name: str) -> Iterator[Found]:
        """The programs with this name, in the order of the places; the container only if nothing else was found."""
        plain = name.removesuffix(MPI)
        for place in (self._of_carried, self._of_node, self._of_image):
            for candidate in place(name):
                yield candidate
                if candidate.final:
                    return
            if plain != name:
                yield from (candidate for candidate in place(plain) if candidate.mpi)

    def _of_carried(self, name: str) -> tuple[Found, ...]:
        if self._brought is None or self._carried is None or name not in self._carried.names:
            return ()
        return () if name in self._settings.paths else self._brought.get().found.get(name, ())

    def _of_node(self, name: str) -> tuple[Found, ...]:
        if name in NAMES:
            return self._known.get().get(name, ())
        other = self._others.setdefault(name, _Once(lambda: self._look([name])))
        return other.get().get(name, ())

    def _of_image(self, name: str) -> tuple[Found, ...]:
        """The image's programs. One that does not start is reported by `_refusal`; another may be on the node."""
        inside = tried(self._inside.get) if self._inside else {}
        return () if isinstance(inside, CannotMeasure) else inside.get(name, ())

    def _look(self, names: Sequence[str]) -> dict[str, tuple[Found, ...]]:
        """Search the node, in one round trip; with `become` also as root, for what the login cannot run."""
        path, found = self._ask(names, "", as_root=False)
        refused = [name for name in names if all(each.why_not for each in found.get(name, ()))]
        if refused and self._node.connection.become:
            _, of_root = self._ask(refused, path, as_root=True)
            found |= {name: (*of_root.get(name, ()), *found.get(name, ())) for name in refused}
        return found

    def _ask(self, names: Sequence[str], path: str, *, as_root: bool) -> tuple[str, dict[str, tuple[Found, ...]]]:
        given = {name: where for name, where in self._settings.paths.items() if name in names}
        places = {"given": given, "folders": self._settings.folders, "path": path, "usual": USUAL_FOLDERS}
        return look(self._session, self._node, limit_s=LOOK_S, as_root=as_root, names=list(names), **places)

    def _refusal(self, names: Sequence[str], refused: Sequence[tuple[str, Found]]) -> CannotMeasure:
        if refused:
            name, found = refused[0]
            reason = f"{name} at {found.path} ({found.origin}) {found.why_not}"
            step = how_to_start(found.missing) if found.missing else how_to_get([name])
            step = "correct nodegate_tools in the inventory" if found.wrong and found.final else step
            return CannotMeasure(reason, next_step=step, lacks=lacks(names), whose=self._node.name)
        within = self._inside.value if self._inside else None
        if isinstance(within, CannotMeasure):
            return CannotMeasure(within.bare, next_step=within.next_step, lacks=lacks(names), whose=within.whose)
        nor = f", nor in {self._settings.image}" if self._settings.image else ""
        reason = f"no {' or '.join(names)} was found{nor}"
        return Lacking(reason, next_step=how_to_get(names), lacks=lacks(names), whose=self._node.name)
