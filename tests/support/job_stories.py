"""Ten short stories of jobs, as logs of our own writing: what triage says of each is in tests/golden/triage."""

import gzip
from collections.abc import Callable
from pathlib import Path

from support.job_logs import ecc_case, iteration, joins, kernel, peer_gone, stands_at, times_out, write, xid

_LOST = "GPU has fallen off the bus."


def memory_error(folder):
    """The kernel reports the error at once, the other rank ten minutes later."""
    ecc_case(folder)


def lost_gpu_in_a_guessed_zone(folder):
    """`dmesg -T` names no zone; read in UTC+08:00 its fault is a second before the job's error."""
    write(folder, "gpu01.log", *joins("gpu01", 3, 3, 8, bus="9b000", address="10.9.0.1"), iteration("07:36:00.0", 41))
    with (folder / "gpu01.log").open("a") as log:
        log.write("[rank3]: 2026-08-10 07:36:06 RuntimeError: CUDA error: unknown error\n")
    lost = f"{xid('0000:9b:00', 79, _LOST)}\n[Mon Aug 10 15:36:05 2026] NVRM: GPU 0000:9b:00.0: {_LOST}"
    write(folder, "dmesg-gpu01.txt", f"[Mon Aug 10 15:36:05 2026] {lost}")


def program_beside_an_old_fault(folder):
    """The program's own error; hours before, under another job, a GPU of the node had one."""
    write(folder, "gpu02.log", iteration("15:36:00.0", 512), "[2026-08-10 15:36:20.0] [rank2]: KeyError: 'labels'")
    write(
        folder,
        "dmesg-gpu02.txt",
        kernel("06:01:00.0", xid("0000:18:00", 94, "pid=7711, name=python3, Contained: SM")),
        kernel("15:36:01.0", "systemd[1]: Started Session 12 of User root."),
    )


def ranks_that_did_not_come(folder):
    """Two of four ranks time out; the other two, on the same node, print nothing more."""
    for rank in range(4):
        node = f"gpu{rank // 2:02}"
        said = [times_out(rank, "15:46:05.7"), stands_at(rank, "15:46:05.8", 979, 976)] if rank < 2 else []
        start = joins(node, rank % 2, rank, 4, bus=f"{rank % 2 + 1}9000", address=f"10.9.0.{rank // 2}")
        write(folder, f"rank{rank}.log", *start, iteration("15:35:58.0", 976), *said)


def different_collectives(folder):
    """One rank took another branch of the program."""
    for rank in range(4):
        odd = {"operation": "ALLGATHER", "numel": 1024} if rank == 3 else {}
        start = joins(f"gpu0{rank}", 0, rank, 4, address=f"10.9.0.{rank}")
        write(folder, f"rank{rank}.log", *start, times_out(rank, "15:46:05.7", **odd))


def peer_that_most_ranks_name(folder):
    """Three of four ranks lose their connection to one address, and no log says which node has it."""
    for rank in range(4):
        peer = "10.9.0.9" if rank else "10.9.0.3"
        start = joins(f"gpu0{rank}", 0, rank, 4, address=f"10.9.0.{rank}")
        write(folder, f"rank{rank}.log", *start, peer_gone(f"gpu0{rank}", 0, peer))


def node_that_fell_silent(folder):
    """Every worker prints a line a minute; one stops after 20 minutes."""
    for rank in range(3):
        minutes = range(20 if rank == 1 else 40)
        beats = (f"[rank{rank}]: 2026-08-10 15:{minute:02}:00 waiting for the others" for minute in minutes)
        write(folder, f"gpu0{rank}.log", *joins(f"gpu0{rank}", 0, rank, 3, address=f"10.9.0.{rank}"), *beats)


def nccl_that_did_not_start(folder):
    """Half of the ranks do not complete NCCL's start."""
    for rank in range(4):
        who = f"gpu{rank // 2:02}:43{rank}:43{rank} [{rank % 2}] NCCL INFO ncclCommInitRank comm 0x5{rank} rank {rank}"
        words = ("START", "COMPLETE") if rank < 2 else ("START",)
        lines = (f"{who} nranks 4 cudaDev {rank % 2} busId 19000 commId 0x7 - Init {word}" for word in words)
        write(folder, f"rank{rank}.log", *lines)


def flap_that_was_survived(folder):
    """A port of a NIC goes down and comes back, and the training goes on."""
    down = "gpu01:1:2 [0] NCCL WARN NET/IB : mlx5_3:1 Got async event : port error"
    steps = (iteration(f"15:3{minute}:00.0", 10 + minute) for minute in (1, 2))
    write(folder, "gpu01.log", iteration("15:30:00.0", 10), down, *steps)


def unknown_error_in_a_torn_log(folder):
    """An error that no row knows; a packed log that was cut off, a file that is no log."""
    write(folder, "rank3.log", "[rank3]: acme.pipeline.ShardError: shard 3 has no manifest")
    whole = "".join(f"{number * 7919 % 10007} tokens read\n" for number in range(50_000))
    (folder / "rank4.log.gz").write_bytes(gzip.compress(whole.encode(), mtime=0)[:-5000])
    (folder / "model.pt").write_bytes(b"weights")


STORIES: tuple[Callable[[Path], None], ...] = (
    memory_error,
    lost_gpu_in_a_guessed_zone,
    program_beside_an_old_fault,
    ranks_that_did_not_come,
    different_collectives,
    peer_that_most_ranks_name,
    node_that_fell_silent,
    nccl_that_did_not_start,
    flap_that_was_survived,
    unknown_error_in_a_torn_log,
)
