"""Node side: where this node's tools are, and whether they could start. Runs none of them.

Started as `python3 -c SOURCE`; the request comes on standard input as JSON, the answer is one line of JSON. A
program that is found is examined without being run: the head of its file shows for which machine it is built, and the
dynamic loader (as `ldd` uses it) which of its libraries are missing.
"""

import glob
import json
import os
import re
import struct
import subprocess
import sys
from typing import Any, Iterator

LOADER_S = 5.0
MOST_LINES = 12
MOST_FOUND = 4  # of one tool: those that cannot start, before one that can
HEAD_BYTES = 4096
MACHINES = {"x86_64": 62, "aarch64": 183, "ppc64le": 21}  # ELF's e_machine
PROGRAM_INTERPRETER = 3
LOADER = re.compile(r"/(?:usr/)?lib[0-9a-z]*/(?:[\w-]+/)?ld-linux[\w.-]*|/lib64/ld64\.so\.[0-9]")
MISSING = re.compile(r"^\s*(\S{1,200}) => not found", re.MULTILINE)
TOO_NEW = re.compile(r"version `([\w.]{1,80})' not found")


def elf(path: str) -> "tuple[int, str] | None":
    """The machine and the loader of a 64-bit little-endian ELF program; None for anything else, such as a script."""
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
    if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
        return None
    machine = struct.unpack_from("<H", head, 18)[0]
    start, size, count = struct.unpack_from("<Q", head, 32)[0], *struct.unpack_from("<HH", head, 54)
    for at in range(start, min(start + size * count, len(head) - 40), max(size, 56)):
        kind, offset, length = struct.unpack_from("<I", head, at)[0], *struct.unpack_from("<Q16xQ", head, at + 8)
        if kind == PROGRAM_INTERPRETER and offset + length <= len(head):
            return machine, head[offset : offset + length].split(b"\0")[0].decode("utf-8", "replace")
    return machine, ""


def said_by_loader(loader: str, path: str, libraries: str) -> str:
    """What the dynamic loader says about a program's libraries; empty if it could not be run."""
    environment = dict(os.environ, LD_TRACE_LOADED_OBJECTS="1", LC_ALL="C")
    if libraries:
        environment["LD_LIBRARY_PATH"] = libraries
    pipe = subprocess.PIPE
    try:
        done = subprocess.run(  # noqa: PLW1510 - it fails where something is missing, which is what we ask
            [loader, path], env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, timeout=LOADER_S
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return (done.stdout + b"\n" + done.stderr)[: 256 << 10].decode("utf-8", "replace")


def examine(path: str, origin: str, libraries: str = "") -> "dict[str, Any]":
    """The description of one program: `wrong` and `missing` stay empty if it can run."""
    found: dict[str, Any] = {"path": path, "origin": origin, "wrong": "", "missing": [], "mpi": False}
    if not os.path.isfile(path):
        return dict(found, wrong="does not exist" if not os.path.exists(path) else "is not a file")
    if not os.access(path, os.X_OK):
        return dict(found, wrong=f"is not executable by uid {os.getuid()} (its mode, or a file system mounted noexec)")
    try:
        program = elf(path)
    except OSError as error:
        return dict(found, wrong=f"cannot be read: {error.strerror}") if os.getuid() == 0 else found
    if program is None:
        return found
    here = os.uname().machine
    if here in MACHINES and program[0] != MACHINES[here]:
        built_for = next((name for name, number in MACHINES.items() if number == program[0]), f"ELF {program[0]}")
        return dict(found, wrong=f"is built for {built_for}, but this node is {here}")
    if LOADER.fullmatch(program[1]):
        said = said_by_loader(program[1], path, libraries)
        missing = [os.path.basename(name) for name in MISSING.findall(said)] + TOO_NEW.findall(said)
        found["missing"] = list(dict.fromkeys(missing))[:MOST_LINES]
        found["mpi"] = "libmpi" in said
    return found


def candidates(name: str, request: "dict[str, Any]") -> "Iterator[tuple[str, str]]":
    """Where a tool may be, in order: (origin, path). One that the inventory names is searched for nowhere else."""
    if name in request["given"]:
        yield "nodegate_tools", request["given"][name]
        return
    for origin, folders in (
        ("nodegate_tool_paths", request["folders"]),
        ("PATH", own_path(request["path"])),
        ("the usual folders", request["usual"]),
    ):
        for path in [os.path.join(folder, name) for folder in folders]:
            for found in sorted(glob.glob(path)) if "*" in path else [path]:  # a folder may be a pattern
                if os.path.isfile(found):
                    yield origin, found


def own_path(more: str) -> "list[str]":
    """The absolute folders of PATH, then of another PATH (the login's, if root searches)."""
    both = os.environ.get("PATH", "").split(":") + more.split(":")
    return list(dict.fromkeys(folder for folder in both if folder.startswith("/")))


def look_for(name: str, request: "dict[str, Any]") -> "list[dict[str, Any]]":
    """The first program of that name that could start, after those that could not."""
    found, seen = [], set()
    for origin, path in candidates(name, request):
        real = os.path.realpath(path)
        if real in seen:
            continue
        seen.add(real)
        found.append(examine(path, origin, request["libraries"]))
        if len(found) >= MOST_FOUND or not (found[-1]["wrong"] or found[-1]["missing"]):
            break
    return found


def main() -> None:
    """Answer the request."""
    request = json.loads(sys.stdin.read())
    found = {name: look_for(name, request) for name in request["names"]}
    answer = {"path": os.environ.get("PATH", ""), "found": found}
    print(json.dumps(answer))  # noqa: T201 - this is the answer


if __name__ == "__main__":
    main()
