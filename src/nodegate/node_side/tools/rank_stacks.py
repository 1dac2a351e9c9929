"""Node side: where the ranks of a job are in their Python code, read by py-spy, which does not stop them.

Standard input says {"py_spy": [its command], "jobs": [numbers of Slurm], "limit_s": 30}; one line of JSON answers. A
rank is a Python process that a launcher has given a number; where none has one, a Python process that holds a GPU.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from typing import Any

# What launchers call a rank and the number of ranks: torchrun and its like, Open MPI, PMI, Slurm's PMIx, srun.
LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("PMIX_RANK", ""),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
GPU, NUMBER = re.compile("/dev/nvidia[0-9]+"), re.compile("[0-9]{1,7}")
PYTHON = re.compile("(python|pypy)[0-9.]*(d|t)?")
MOST_READ = 8 << 20
MOST_RANKS, MOST_FRAMES, MOST_LETTERS = 128, 200, 160
TRIES = 3  # a process that runs on may move while it is read


def read(pid: int, name: str) -> "bytes | None":
    """A file of /proc; None if it cannot be read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(MOST_READ)
    except OSError:
        return None


def target(link: str) -> str:
    """Where a link points; empty if that cannot be read."""
    try:
        return os.readlink(link)
    except OSError:
        return ""


def is_python(pid: int) -> bool:
    """Whether it is Python, or a program with Python inside."""
    own = target(f"/proc/{pid}/exe").replace(" (deleted)", "")
    name = own or (read(pid, "cmdline") or b"").split(b"\0")[0].decode("utf-8", "replace")
    return PYTHON.fullmatch(os.path.basename(name)) is not None or b"/libpython" in (read(pid, "maps") or b"")


def holds_gpu(pid: int) -> bool:
    """Whether it has a GPU open."""
    try:
        return any(GPU.fullmatch(target(f"/proc/{pid}/fd/{name}")) for name in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def above(pid: int) -> "list[int]":
    """Its parents, nearest first."""
    found: list[int] = []
    while pid > 1 and pid not in found:
        fields = (read(pid, "stat") or b"").rpartition(b")")[2].split()
        pid = int(fields[1]) if len(fields) > 1 else 0
        found.append(pid)
    return found


def ranks(jobs: "list[str]") -> "tuple[list[dict[str, Any]], int]":
    """The ranks of this node, and how many Python processes are not ours to look into."""
    known, hidden = {}, 0
    ours = {os.getpid(), *above(os.getpid())}
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        if pid in ours or not is_python(pid):
            continue
        if any(b"nodegate-guard" in (read(each, "cmdline") or b"") for each in (pid, *above(pid))):
            continue  # a guard of nodegate has started it: on this machine it may have the job's own variables
        raw = read(pid, "environ")
        hidden += raw is None
        pairs = [each.decode("utf-8", "replace").partition("=") for each in (raw or b"").split(b"\0")]
        own = {name: value for name, _, value in pairs}
        group = (read(pid, "cgroup") or b"").decode("utf-8", "replace").replace("\n", "/")
        if raw and (not jobs or own.get("SLURM_JOB_ID") in jobs or any(f"/job_{job}/" in group for job in jobs)):
            known[pid] = own
    for rank, size in LAUNCHERS:
        numbers = {pid: own[rank] for pid, own in known.items() if NUMBER.fullmatch(own.get(rank, ""))}
        if numbers:
            return [row(pid, numbers[pid], known[pid].get(size, "")) for pid in leaders(numbers)], hidden
    return [row(pid, "", "") for pid in known if jobs or holds_gpu(pid)], hidden


def leaders(numbers: "dict[int, str]") -> "list[int]":
    """One process of each rank: of those that have its number the first that holds a GPU, else the first of all."""
    families: dict[int, list[tuple[bool, int, int]]] = {}
    for pid, number in numbers.items():
        parents = above(pid)
        head = [each for each in parents if numbers.get(each) == number][-1:] or [pid]
        families.setdefault(head[0], []).append((not holds_gpu(pid), len(parents), pid))
    return sorted(min(members)[2] for members in families.values())


def row(pid: int, rank: str, size: str) -> "dict[str, Any]":
    """A rank; its stack is not read yet."""
    return {"pid": pid, "rank": rank, "size": size if NUMBER.fullmatch(size) else "", "frames": [], "error": ""}


def read_stacks(rows: "list[dict[str, Any]]", command: "list[str]", end: float) -> None:
    """Fill in the stacks of some ranks, or why not."""
    begun = []
    for each in rows:
        out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # noqa: SIM115 - read below
        argv = [*command, "dump", "--json", "--nonblocking", "--pid", str(each["pid"])]
        begun.append((each, subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err), out, err))
    for each, process, out, err in begun:
        try:
            process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
        each["frames"] = frames(each["pid"], os.pread(out.fileno(), MOST_READ, 0))
        said = os.pread(err.fileno(), MOST_READ, 0).decode("utf-8", "replace").strip().partition("\n")[0]
        late = "" if process.returncode is not None else "not ready in time"
        each["error"] = "" if each["frames"] else "py-spy: " + (late or said or str(process.returncode))[:300]


def frames(pid: int, said: bytes) -> "list[str]":
    """The stack of the main thread, from the innermost frame outwards; of the first that has one, if that has none."""
    try:
        found = sorted(
            (thread for thread in json.loads(said.decode("utf-8", "replace")) if thread["frames"]),
            key=lambda thread: thread["os_thread_id"] != pid and thread["thread_name"] != "MainThread",
        )
        stack = found[0]["frames"][:MOST_FRAMES]
        return [
            "{} ({})".format(each["name"][:MOST_LETTERS], os.path.basename(each["filename"])[:MOST_LETTERS])
            for each in stack
        ]
    except (ValueError, TypeError, LookupError):
        return []


def main() -> None:
    """Answer the request."""
    request = json.loads(sys.stdin.read())
    found, hidden = ranks(request["jobs"])
    for each in found[MOST_RANKS:]:
        each["error"] = f"only {MOST_RANKS} of a node are read"
    end = time.monotonic() + request["limit_s"]
    for _ in range(TRIES):
        read_stacks([each for each in found[:MOST_RANKS] if not each["frames"]], request["py_spy"], end)
    print(json.dumps({"ranks": found[: 8 * MOST_RANKS], "hidden": hidden}))  # noqa: T201 - this is the answer


if __name__ == "__main__":
    main()
