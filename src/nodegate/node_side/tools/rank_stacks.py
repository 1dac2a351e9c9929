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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# What launchers call a rank and the number of ranks: torchrun and its like, Open MPI, PMI, Slurm's PMIx, srun.
LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("PMIX_RANK", ""),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
GPU = re.compile("/dev/nvidia[0-9]+")
PYTHON = re.compile("(python|pypy)[0-9.]*(d|t)?")
NUMBER = re.compile("[0-9]{1,7}")
MOST_READ = 8 << 20
MOST_RANKS, MOST_THREADS, MOST_FRAMES, MOST_LETTERS = 128, 64, 200, 160
AT_ONCE, TRIES = 16, 3  # a process that runs on may move while it is read


def read(pid: int, name: str) -> "bytes | None":
    """A file of /proc; None if it cannot be read."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(MOST_READ)
    except OSError:
        return None


def is_python(pid: int) -> bool:
    """Whether it is Python, or a program with Python inside."""
    own = target(f"/proc/{pid}/exe").replace(" (deleted)", "")
    name = own or (read(pid, "cmdline") or b"").split(b"\0")[0].decode("utf-8", "replace")
    return PYTHON.fullmatch(os.path.basename(name)) is not None or b"/libpython" in (read(pid, "maps") or b"")


def holds_gpu(pid: int) -> bool:
    """Whether it has a GPU open."""
    try:
        found = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    return any(GPU.fullmatch(target(f"/proc/{pid}/fd/{name}")) for name in found)


def target(link: str) -> str:
    """Where a link points; empty if that cannot be read."""
    try:
        return os.readlink(link)
    except OSError:
        return ""


def parents() -> "dict[int, int]":
    """{pid: parent} of all processes."""
    found = {}
    for name in os.listdir("/proc"):
        fields = (read(int(name), "stat") or b"").rpartition(b")")[2].split() if name.isdigit() else []
        if len(fields) > 1 and fields[0] not in (b"Z", b"X"):
            found[int(name)] = int(fields[1])
    return found


def above(pid: int, parent_of: "dict[int, int]") -> "list[int]":
    """Its parents, nearest first."""
    found: list[int] = []
    while parent_of.get(pid, 0) > 0 and parent_of[pid] not in found:
        pid = parent_of[pid]
        found.append(pid)
    return found


def environment(pid: int) -> "dict[str, str] | None":
    """The variables it was started with; None if they cannot be read."""
    raw = read(pid, "environ")
    pairs = [each.decode("utf-8", "replace").partition("=") for each in (raw or b"").split(b"\0")]
    return None if raw is None else {name: value for name, _, value in pairs}


def is_of(pid: int, variables: "dict[str, str]", jobs: "list[str]") -> bool:
    """Whether it belongs to one of these jobs: by its variables, or by the group that Slurm has put it in."""
    group = (read(pid, "cgroup") or b"").decode("utf-8", "replace")
    return variables.get("SLURM_JOB_ID") in jobs or any(f"/job_{job}/" in f"{group}/" for job in jobs)


def ranks(jobs: "list[str]") -> "tuple[list[dict[str, Any]], int]":
    """The ranks of this node, and how many Python processes are not ours to look into."""
    parent_of, hidden = parents(), 0
    ours = {os.getpid(), *above(os.getpid(), parent_of)}
    known: dict[int, dict[str, str]] = {}
    for pid in sorted(set(parent_of) - ours):
        variables = environment(pid) if is_python(pid) else {}
        hidden += variables is None
        if variables and (not jobs or is_of(pid, variables, jobs)):
            known[pid] = variables
    for rank, size in LAUNCHERS:
        numbers = {pid: own[rank] for pid, own in known.items() if NUMBER.fullmatch(own.get(rank, ""))}
        if numbers:
            return [row(pid, numbers[pid], known[pid].get(size, "")) for pid in leaders(numbers, parent_of)], hidden
    return [row(pid, "", "") for pid in known if jobs or holds_gpu(pid)], hidden


def leaders(numbers: "dict[int, str]", parent_of: "dict[int, int]") -> "list[int]":
    """One process of each rank: of a rank and its children the first that holds a GPU, else the first of all."""
    families: dict[int, list[int]] = {}
    for pid in numbers:
        same = [each for each in above(pid, parent_of) if numbers.get(each) == numbers[pid]]
        families.setdefault(same[-1] if same else pid, []).append(pid)
    found = []
    for members in families.values():
        members.sort(key=lambda pid: len(above(pid, parent_of)))
        found.append(next((pid for pid in members if holds_gpu(pid)), members[0]))
    return sorted(found)


def row(pid: int, rank: str, size: str) -> "dict[str, Any]":
    """A rank; its stacks are not read yet."""
    return {"pid": pid, "rank": rank, "size": size if NUMBER.fullmatch(size) else "", "threads": [], "error": ""}


def read_stacks(rows: "list[dict[str, Any]]", command: "list[str]", end: float) -> None:
    """Fill in the threads of some ranks, or why not."""
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
            each["error"] = "py-spy was not ready in time"
            continue
        said, wrong = (os.pread(file.fileno(), MOST_READ, 0) for file in (out, err))
        each["threads"], each["error"] = threads(each["pid"], said), ""
        if not each["threads"]:
            lines = [line for line in wrong.decode("utf-8", "replace").splitlines() if line.strip()]
            each["error"] = "py-spy: " + (lines[0] if lines else f"exit code {process.returncode}")[:300]


def threads(pid: int, said: bytes) -> "list[dict[str, Any]]":
    """The threads that py-spy has found, the main one first: (function, file) from the innermost on."""
    try:
        found = json.loads(said.decode("utf-8", "replace"))
        rows = [
            {
                "name": str(each["thread_name"] or "")[:MOST_LETTERS],
                "is_main": each["os_thread_id"] == pid or each["thread_name"] == "MainThread",
                "frames": [
                    [frame["name"][:MOST_LETTERS], os.path.basename(frame["filename"])[:MOST_LETTERS]]
                    for frame in each["frames"][:MOST_FRAMES]
                ],
            }
            for each in found[:MOST_THREADS]
        ]
    except (ValueError, TypeError, LookupError):
        return []
    return sorted((each for each in rows if each["frames"]), key=lambda each: not each["is_main"])


def main() -> None:
    """Answer the request."""
    request = json.loads(sys.stdin.read())
    end = time.monotonic() + request["limit_s"]
    found, hidden = ranks(request["jobs"])
    for _ in range(TRIES):
        left = [each for each in found[:MOST_RANKS] if not each["threads"]]
        for at in range(0, len(left), AT_ONCE):
            read_stacks(left[at : at + AT_ONCE], request["py_spy"], end)
    for each in found[MOST_RANKS:]:
        each["error"] = f"only {MOST_RANKS} of a node are read"
    print(json.dumps({"ranks": found[: 8 * MOST_RANKS], "hidden": hidden}))  # noqa: T201 - this is the answer


if __name__ == "__main__":
    main()
