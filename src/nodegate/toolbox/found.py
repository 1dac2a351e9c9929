"""What was found of one tool on a node (node_side/tools/find_tools.py), or in a container image (in_container.py)."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nodegate.errors import CannotMeasure
from nodegate.node import Node
from nodegate.node_program import node_source
from nodegate.toolbox.settings import Image
from nodegate.toolbox.tool_list import USUAL_FOLDERS
from nodegate.transport.call import printable
from nodegate.transport.session import Session

STRICT = "nodegate_tools"  # the inventory names this path: no other is tried
_MOST = 16
_NO_END = "look for a network file system on its PATH that does not answer"
_NEXT_STEP = "check what intercepts output between sshd and python3 (.bashrc, banner): the answer is malformed"

START_S = 180.0  # a first start on a cold node reads gigabytes
_NOT_STARTED = 127
_MOST_MISSING = 12

# $1: the usual folders; then names. One line `tool NAME PATH` each, then what its loader says of it.
_LOOK = """\
usual=$1; shift
tab=$(printf '\\t')
IFS=:
for name in "$@"; do
  for folder in $PATH $usual; do
    path=$folder/$name
    [ -f "$path" ] && [ -x "$path" ] || continue
    printf 'tool %s %s\\n' "$name" "$path"
    ldd "$path" 2>/dev/null | while IFS=" $tab" read -r library rest; do
      case $library in libmpi*) echo mpi ;; esac
      case $rest in *'not found'*) printf 'missing %s\\n' "$library" ;; esac
    done
    break
  done
done
echo looked
"""
_LINE = re.compile(r"tool ([\w-]{1,80}) (/[^\0-\x20\x7f]{1,500})|missing (\S{1,80})|(mpi)", re.ASCII)
_STEPS = {
    "docker": "on the node: docker pull {image}; docker needs the NVIDIA container toolkit and a login in group docker",
    "podman": "on the node: podman pull {image}; podman needs nvidia-ctk cdi generate",
    "enroot": "on the node: enroot import and enroot create, as the user that nodegate runs as",
}
_OTHER_STEP = "put {image} on the node, readable for the user that nodegate runs as"


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


def argv_in(image: Image, python: str, *command: str) -> tuple[str, ...]:
    """The command that runs a program of the image on a node, and ends with the controller."""
    return (python, "-I", "-S", "-c", node_source("tools.in_container"), image.runtime, image.reference, *command)


def look_inside(image: Image, session: Session, node: Node, names: Sequence[str]) -> dict[str, tuple[Found, ...]]:
    """Which of these tools the image has; starts it once. Nothing is pulled.

    Raises:
        CannotMeasure: it does not start on this node.
        Unreachable: the connection broke.
    """
    python, become = node.connection.python, node.connection.become
    command = ("/bin/sh", "-c", _LOOK, "nodegate", ":".join(USUAL_FOLDERS), *names)
    output = session.run(argv_in(image, python, *command), timeout_s=START_S, as_root=become)
    lines = output.stdout.decode("utf-8", "replace").splitlines()
    if "looked" not in lines:
        said = printable(output.stderr[-400:], 200) or f"exit code {output.exit_code}"
        said = f"not within {START_S:g} s" if output.timed_out else said
        step = _STEPS.get(image.runtime, _OTHER_STEP).format(image=image.reference)
        if output.exit_code == _NOT_STARTED and "not found" not in said:
            step = f"install {image.runtime}, or set another runtime in nodegate_image"
        raise CannotMeasure(f"{image} did not start: {said}", next_step=step, whose=node.name)
    found: dict[str, Found] = {}
    name = ""
    for match in filter(None, map(_LINE.fullmatch, lines)):
        if match[1]:
            name = match[1]
            found[name] = Found(match[2], argv_in(image, python, match[2]), str(image))
        elif name:
            missing = (*found[name].missing, *filter(None, [match[3]]))[:_MOST_MISSING]
            found[name] = replace(found[name], missing=missing, mpi=found[name].mpi or bool(match[4]))
    return {name: (one,) for name, one in found.items()}
