"""Tools in a container image: what starts one there (node_side/tools/in_container.py), and which ones the image has."""

import re
from collections.abc import Sequence
from dataclasses import replace

from nodegate.errors import CannotMeasure
from nodegate.node import Node
from nodegate.node_program import node_source
from nodegate.toolbox.found import Found
from nodegate.toolbox.settings import Image
from nodegate.toolbox.tool_list import USUAL_FOLDERS
from nodegate.transport.call import printable
from nodegate.transport.session import Session

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
