#!/usr/bin/python3
"""Stands for nccl-tests with MPI on a lab node: real ranks that meet as those of nccl-tests do, over no GPU.

They meet by Open MPI, or where Slurm offers PMI2 alone by that. Rank 0 prints the table of the size that it is given.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from pathlib import Path

WIDTH = 256
BIG = 1 << 20


def by_mpi(mine: str) -> list[str]:
    """What every rank says of itself: gathered by the collective with which nccl-tests begins, then a large one."""
    mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
    world, byte = (_object(mpi, name) for name in ("ompi_mpi_comm_world", "ompi_mpi_byte"))
    mpi.MPI_Init(None, None)
    size = ctypes.c_int()
    rank = ctypes.c_int()
    mpi.MPI_Comm_size(world, ctypes.byref(size))
    mpi.MPI_Comm_rank(world, ctypes.byref(rank))
    own = ctypes.create_string_buffer(f"{rank.value} {mine}".encode(), WIDTH)
    all_of_them = ctypes.create_string_buffer(WIDTH * size.value)
    mpi.MPI_Allgather(own, WIDTH, byte, all_of_them, WIDTH, byte, world)
    large, all_large = (ctypes.create_string_buffer(BIG * count) for count in (1, size.value))
    mpi.MPI_Allgather(large, BIG, byte, all_large, BIG, byte, world)
    mpi.MPI_Barrier(world)
    said = [all_of_them.raw[place : place + WIDTH] for place in range(0, WIDTH * size.value, WIDTH)]
    mpi.MPI_Finalize()
    return [each.rstrip(b"\0").decode() for each in said] if rank.value == 0 else []


def by_pmi2(mine: str) -> list[str]:
    """The same by Slurm's PMI2: each rank puts a value, waits for all, and reads those of the others."""
    pmi = ctypes.CDLL("libpmi2.so.0")
    spawned, size, rank, number, length = (ctypes.c_int() for _ in range(5))
    pmi.PMI2_Init(*(ctypes.byref(each) for each in (spawned, size, rank, number)))
    pmi.PMI2_KVS_Put(f"rank-{rank.value}".encode(), f"{rank.value} {mine}".encode())
    pmi.PMI2_KVS_Fence()
    found = []
    for other in range(size.value):
        value = ctypes.create_string_buffer(WIDTH)
        pmi.PMI2_KVS_Get(None, -1, f"rank-{other}".encode(), value, WIDTH, ctypes.byref(length))
        found.append(value.value.decode())
    pmi.PMI2_Finalize()
    return found if rank.value == 0 else []


def _object(mpi: ctypes.CDLL, name: str) -> ctypes.c_void_p:
    """A handle of Open MPI: the address of one of its objects."""
    return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))


def table(ranks: list[str], size: int) -> str:
    """As nccl-tests 2.17.5 prints it."""
    factor = 2.0 * (len(ranks) - 1) / len(ranks)
    time_us = size / 1e3 / 100.0
    half = f" {time_us:.2f} {size / 1e3 / time_us:.2f} {size / 1e3 / time_us * factor:.2f} 0"
    lines = ["# nccl-tests version 2.17.5 nccl-headers=22703 nccl-library=22703"]
    lines += [f"# Collective test starting: {Path(sys.argv[0]).name}"]
    lines += [f"# nThread 1 nGpus 1 minBytes {size} maxBytes {size} step: 2(factor) warmup iters: 3 iters: 10"]
    lines += ["#\n# Using devices"]
    for each in ranks:
        rank, host, pid, local = each.split()
        lines.append(f"#  Rank {rank:>2} Group  0 Pid {pid:>6} on {host} device {local:>2} [0000:1b:00] NVIDIA H100")
    lines += ["NCCL version 2.27.3+cuda12.8", f"{size} {size // 4} float sum -1{half}{half}"]
    return "\n".join([*lines, "# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 100 \n#"])


def main() -> None:
    """One rank."""
    local = os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK") or os.environ.get("SLURM_LOCALID", "0")
    mine = f"{socket.gethostname()} {os.getpid()} {local}"
    if os.environ.get("NCCL_DEBUG") == "INFO":
        start = f"{socket.gethostname()}:{os.getpid()}:{os.getpid()} [{local}] NCCL INFO"
        sys.stdout.write(f"{start} Using network Socket\n")
        sys.stdout.flush()
    has_pmi2_alone = "PMI_FD" in os.environ and "PMIX_NAMESPACE" not in os.environ
    ranks = by_pmi2(mine) if has_pmi2_alone else by_mpi(mine)
    if ranks:
        size = int(sys.argv[sys.argv.index("-e") + 1])
        sys.stdout.write(table(ranks, size) + "\n")


if __name__ == "__main__":
    main()
