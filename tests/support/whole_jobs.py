"""Whole jobs of our own writing, handed in as users have them."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

from support.job_logs import write, xid

START = datetime(2026, 8, 10, 7, 0, tzinfo=timezone.utc)
FAULT = START + timedelta(minutes=20)
LIMIT = timedelta(minutes=10)
NODES = ("gpu-a100-17", "gpu-a100-18")
BUSES = ("19000", "3b000", "9b000", "c3000")
BUSES_OF_KERNEL = ("0000:19:00", "0000:3b:00", "0000:9b:00", "0000:c3:00")
RANKS = 8

Line = tuple[datetime, str]


def glog(when):
    """A time as the watchdog prints it, without a year."""
    return f"{when.month}{when.day:02} {when:%H:%M:%S}.118204311"


def job(*, broken=6, last_words=(), ahead=timedelta()):
    """Two workers of four ranks: one rank stops with its last words, which have no time; the others time out.

    The clock of the second worker is ahead by this.
    """
    return {
        f"moe-worker-{number}": list(_worker(f"moe-worker-{number}", number, broken, last_words, ahead * number))
        for number in range(2)
    }


def _worker(name, number, broken, last_words, ahead):
    start = START + ahead
    yield START, f"{start:%Y-%m-%d %H:%M:%S} pod {name} on node {NODES[number]}"
    yield START, f"{start:%Y-%m-%d %H:%M:%S} RANK: {number} calls torchrun"
    for local in range(4):
        rank = number * 4 + local
        for word in ("START", "COMPLETE"):
            yield (
                START,
                (
                    f"{name}:30{local}:80{local} [{local}] NCCL INFO comm 0x5{rank} rank {rank} nranks {RANKS} cudaDev"
                    f" {local} nvmlDev {local} busId {BUSES[local]} commId 0x7 - Init {word}"
                ),
            )
    for step in range(20):
        when = START + timedelta(minutes=step, seconds=30)
        clock = f"{when + ahead:%Y-%m-%d %H:%M:%S}"
        if number == 1:  # Megatron: only the last rank prints its progress
            yield (when, f"[{clock}] iteration {step + 1:8}/    5000 | elapsed time per iteration (ms): 9")
    if broken // 4 == number:
        for text in last_words:
            yield FAULT, f"[rank{broken}]: {text}"
    ended = FAULT + LIMIT
    clock = glog(ended + ahead)
    for local in range(4):
        rank = number * 4 + local
        if rank != broken:
            yield (
                ended,
                (
                    f"[rank{rank}]:[E{clock} ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective"
                    " operation timeout: WorkNCCL(SeqNum=977, OpType=ALLREDUCE, NumelIn=64, NumelOut=64,"
                    " Timeout(ms)=600000) ran for 600072 milliseconds before timing out."
                ),
            )
    for local in range(4):
        yield ended, f"{name}:30{local}:90{local} [{local}] NCCL INFO [Service thread] Connection closed by localRank 0"


def by_time(workers):
    """The lines of all workers in the order of time."""
    lines = [(name, line) for name, own in workers.items() for line in own]
    return sorted(lines, key=lambda each: each[1][0])


def _files(folder, workers):
    for name, lines in workers.items():
        write(folder, f"{name}.log", *(text for _, text in lines))


def _kubectl(folder, workers):
    write(folder, "job.log", *(f"[pod/{name}/main] {text}" for name, own in workers.items() for _, text in own))


def _last_first(folder, workers):
    _kubectl(folder, dict(reversed(workers.items())))


def _kubectl_by_time(folder, workers):
    write(folder, "job.log", *(f"[pod/{name}/main] {text}" for name, (_, text) in by_time(workers)))


def _stern(folder, workers):
    write(folder, "job.log", *(f"{name} main {text}" for name, (_, text) in by_time(workers)))


def _compose(folder, workers):
    write(folder, "job.log", *(f"{name:<14} | {text}" for name, (_, text) in by_time(workers)))


def _collected(folder, workers):
    entries = (
        {"@timestamp": f"{when:%Y-%m-%dT%H:%M:%SZ}", "kubernetes": {"pod_name": name}, "log": text}
        for name, (when, text) in by_time(workers)
    )
    write(folder, "job.jsonl", *(json.dumps(entry, ensure_ascii=False) for entry in entries))


def _cat(folder, workers):
    write(folder, "job.log", *(text for own in workers.values() for _, text in own))


def _runtime(folder, workers):
    for name, lines in workers.items():
        write(folder, f"{name}.log", *(f"{when:%Y-%m-%dT%H:%M:%S}.120034511Z stderr F {text}" for when, text in lines))


LAYOUTS: dict[str, Callable[[Path, dict[str, list[Line]]], None]] = {
    "a file a worker": _files,
    "kubectl logs -l --prefix": _kubectl,
    "the last worker first": _last_first,
    "by time": _kubectl_by_time,
    "stern": _stern,
    "compose": _compose,
    "JSON lines": _collected,
    "cat *.log": _cat,
    "container runtime": _runtime,
}


def kernel_log(folder, *, code, text, gpu=2, form="dmesg -T", zone_h=0, ahead=timedelta()):
    """The kernel logs of both nodes; the second one has this Xid two seconds before the hang."""
    for node in NODES:
        lines = [(START - timedelta(days=3), "Linux version 6.8.0-40-generic")]
        if node == NODES[1]:
            lines.append((FAULT - timedelta(seconds=2) + ahead, xid(BUSES_OF_KERNEL[gpu], code, text)))
        write(
            folder,
            f"{'syslog' if form == 'syslog' else 'dmesg'}-{node}.txt",
            *(_as(form, node, zone_h, *line) for line in lines),
        )


def _as(form, node, zone_h, when, text):
    local = when + timedelta(hours=zone_h)
    day = f"{local.day:2}"
    if form == "syslog":
        return f"{local:%b} {day} {local:%H:%M:%S} {node} kernel: [ 1234.500000] {text}"
    return f"[{local:%a %b} {day} {local:%H:%M:%S %Y}] {text}"
