"""What node_side/tools/find_tools.py found of one tool on a node."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from nodegate.errors import CannotMeasure
from nodegate.node import Node
from nodegate.node_program import node_source
from nodegate.transport.call import printable
from nodegate.transport.session import Session

STRICT = "nodegate_tools"  # the inventory names this path: no other is tried
_MOST = 16
_NO_END = "look for a network file system on its PATH that does not answer"
_NEXT_STEP = "check what intercepts output between sshd and python3 (.bashrc, banner): the answer is malformed"


@dataclass(frozen=True)
class Found:
    """One program with a tool's name.

    `argv` starts it; `origin` is where it was found. `wrong` says why it cannot be run, `missing` are the libraries (or
    versions of libc) that the node lacks; both are empty if it can run. `mpi`: it is built with MPI.
    """

    path: str
    argv: tuple[str, ...]
    origin: str
    wrong: str = ""
    missing: tuple[str, ...] = ()
    mpi: bool = False

    @property
    def why_not(self) -> str:
        """Why it cannot be used; empty if it can."""
        return self.wrong or (f"cannot start: {', '.join(self.missing)} not found" if self.missing else "")

    @property
    def final(self) -> bool:
        """Whether nothing else may replace it."""
        return self.origin == STRICT


def look(
    session: Session, node: Node, *, limit_s: float, as_root: bool = False, **asked: object
) -> tuple[str, dict[str, tuple[Found, ...]]]:
    """What find_tools.py finds on the node. Raises CannotMeasure where it does not end in time, and Unreachable."""
    request = {"names": [], "given": {}, "folders": [], "path": "", "usual": [], "libraries": ""} | asked
    argv = [node.connection.python, "-I", "-S", "-c", node_source("tools.find_tools")]
    output = session.run(argv, timeout_s=limit_s, stdin=json.dumps(request).encode(), as_root=as_root)
    if output.timed_out:
        reason = f"its tools were not found within {limit_s:g} s"
        raise CannotMeasure(reason, next_step=_NO_END, whose=node.name)
    return parse_found(output.stdout, node=node.name, said=printable(output.stderr))


def parse_found(answer: bytes, *, node: str, said: str = "") -> tuple[str, dict[str, tuple[Found, ...]]]:
    """The PATH that was searched, and what was found of each tool.

    Raises:
        CannotMeasure: the answer is not in the form of find_tools.
    """
    try:
        document = json.loads(answer)
        found = {
            str(name): tuple(_found(one) for one in several[:_MOST]) for name, several in document["found"].items()
        }
        return str(document["path"])[:65536], found
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        shown = said or printable(answer, 100) or type(error).__name__
        raise CannotMeasure(f"the search for tools failed: {shown}", next_step=_NEXT_STEP, whose=node) from None


def _found(one: Mapping[str, object]) -> Found:
    path, missing = one["path"], one["missing"]
    if not isinstance(path, str) or not path.startswith("/") or not path.isprintable() or not isinstance(missing, list):
        raise ValueError("not a path")
    return Found(
        path=path,
        argv=(path,),
        origin=printable(str(one["origin"]).encode(), 100),
        wrong=printable(str(one["wrong"]).encode(), 200),
        missing=tuple(printable(str(name).encode(), 80) for name in missing[:_MOST]),
        mpi=one["mpi"] is True,
    )
