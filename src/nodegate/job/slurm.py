"""The nodes of a Slurm job whose GPUs carry no label of it: from squeue, else from sacct, where they are installed."""

from pathlib import Path

from nodegate.errors import UsageError
from nodegate.files.atomic import write_whole
from nodegate.files.bounded import read_whole
from nodegate.inventory.hostlist import expand
from nodegate.job.parts import short
from nodegate.scheduler.programs import NoAnswer, answer

LIMIT_S = 20.0
MOST_BYTES = 1 << 20


def nodes_of(job: str, *, kept: Path | None, replay: Path | None) -> tuple[str, ...]:
    """The job's nodes, none if they are unknown. What Slurm said is kept with the answers, and read in a replay."""
    name = f"slurm-{job}.txt"
    if replay is not None:
        try:
            said = read_whole(replay / name, MOST_BYTES).decode(errors="replace")
        except OSError:
            return ()
    else:
        asked = (["squeue", "-h", "-j", job, "-o", "%N"], ["sacct", "-n", "-X", "-P", "-j", job, "-o", "NodeList"])
        said = next(filter(None, map(_output, asked)), "")
    try:
        names = tuple(dict.fromkeys(short(name) for line in said.splitlines() for name in expand(line)))
    except UsageError:
        return ()
    if names and kept is not None:
        write_whole(kept / name, said.encode())
    return names


def _output(command: list[str]) -> str:
    try:
        said = answer(*command, limit_s=LIMIT_S)[:MOST_BYTES].strip()
    except NoAnswer:
        return ""
    return "" if "(" in said or said.startswith("None") else said
