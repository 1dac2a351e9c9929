"""What Slurm's settings do to a run: tracking of processes, limits of partitions, rights. slurm.conf(5), sbatch(1)."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from nodegate.engines.engine import Obstacle
from nodegate.engines.slurm.reach import SlurmReach, own_environ
from nodegate.node import Node
from nodegate.scheduler.programs import NoAnswer, fields
from nodegate.scheduler.slurm import job_options, rows, slurm_says
from nodegate.text import counted, visible

OLDEST = (22, 5)  # what srun, scontrol and our messages are written for
DELIVERY_MIN = 90  # of a delivery with a burn of 10 minutes on nodes that are measured three times
_PAIR = re.compile(r"^(\w+)\s*=\s*(.*?)\s*$", re.MULTILINE)


def obstacles(nodes: Sequence[Node]) -> Iterator[Obstacle]:
    """Of these nodes, all of which are reached through Slurm: settings, limits of partitions, rights of this login."""
    names = tuple(node.name for node in nodes)
    try:
        settings = dict(_PAIR.findall(slurm_says("scontrol", "show", "config")))
        listed = map(fields, slurm_says("scontrol", "-o", "show", "partition").splitlines())
        partitions = {row["PartitionName"]: row for row in listed if "PartitionName" in row}
        alike = _asked(nodes)
    except NoAnswer as said:
        yield Obstacle(names, str(said), "see slurmctld and munge: scontrol ping", stops=True)
        return
    yield from _of_settings(names, settings)
    for options, those in alike.items():
        name = dict(options).get("partition", "")
        yield from _of_partition(tuple(those), name, partitions.get(name, {}))
        yield from _of_rights(tuple(those), dict(options))


def _asked(nodes: Sequence[Node]) -> Mapping[tuple[tuple[str, str], ...], list[str]]:
    """How jobs for these nodes are asked for: account, partition, QOS, with the nodes that share them."""
    way = SlurmReach.to(nodes)
    listed = rows("sinfo", "-h", "-a", "-N", "-n", ",".join(way.names.values()), "-o", "%N|%P")
    partitions: dict[str, str] = {}  # of those of a node the default one, as where it is held
    for name, partition in sorted(listed, key=lambda row: not row[1].endswith("*")):
        partitions.setdefault(name, partition.rstrip("*"))
    alike: defaultdict[tuple[tuple[str, str], ...], list[str]] = defaultdict(list)
    for node, name in way.names.items():
        own = job_options(way.options[node], partitions.get(name, ""))
        alike[tuple(sorted((key, value) for key, value in own.items() if value))].append(node)
    return alike


def _of_settings(names: tuple[str, ...], settings: Mapping[str, str]) -> Iterator[Obstacle]:
    version = settings.get("SLURM_VERSION", "")
    numbers = tuple(int(each) for each in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST:
        oldest = ".".join(f"{each:02}" for each in OLDEST)
        what = f"Slurm {visible(version) or 'of an unknown version'}; nodegate is written for {oldest} and later"
        yield Obstacle(names, what, "try a node first: pytest --inventory slurm: --nodes NODE")
    tracked = settings.get("ProctrackType", "")
    if tracked != "proctrack/cgroup":
        what = f"ProctrackType={visible(tracked)}: a program in a session of its own outlives its job"
        yield Obstacle(names, what, "set ProctrackType=proctrack/cgroup; what nodegate starts ends by its lease")


def _of_partition(names: tuple[str, ...], name: str, own: Mapping[str, str]) -> Iterator[Obstacle]:
    if own.get("State", "UP") != "UP":
        step = f"scontrol update partitionname={name} state=UP"
        yield Obstacle(names, f"partition {name} is {visible(own['State'])}", step, stops=True)
    limit = re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):\d+", own.get("MaxTime", ""))  # 1-02:00:00, 00:30:00, UNLIMITED
    minutes = int(limit[1] or 0) * 1440 + int(limit[2]) * 60 + int(limit[3]) if limit else None
    if minutes is not None and minutes < DELIVERY_MIN:
        what = f"partition {name} ends jobs after {minutes} min: a delivery takes up to {DELIVERY_MIN}"
        yield Obstacle(names, what, "name another partition or a QOS in nodegate_srun")
    most = own.get("MaxNodes", "")
    if most.isdecimal() and int(most) < len(names):
        what = f"partition {name} gives a job at most {counted(int(most), 'node')}"
        what += f": {len(names)} are held by several jobs"
        yield Obstacle(names, what, "nothing, if the limits of jobs allow as many (sacctmgr show assoc)")


def _of_rights(names: tuple[str, ...], asked: Mapping[str, str]) -> Iterator[Obstacle]:
    options = [f"--{key}={value}" for key, value in asked.items()]
    try:
        slurm_says("sbatch", "--test-only", "--exclusive", "-N1", "-t1", *options, "--wrap=true", environ=own_environ())
    except NoAnswer as refused:
        step = "let this login run jobs there: sacctmgr show assoc, scontrol show partition"
        yield Obstacle(names, f"Slurm refuses a job of ours: {visible(str(refused), most=300)}", step, stops=True)
