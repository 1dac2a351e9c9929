"""What the checks say that only some contracts ask for, word for word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.burning import BurnCase, every_window, judged, refused
from support.judging import Case, assert_case

from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.machine import Machine
    from support.burning import Document

PASS, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_JUDGED = Verdict.NOT_JUDGED
GPU3 = "GPU 3 (0000:3d:00.0, S/N 1650001000003)"
GPU0 = "GPU 0 (0000:19:00.0, S/N 1650001000000)"
AGAIN = "burn this node again; see the evidence file for what the GPU reported"
COOLING = "check fans, air flow, heat sink and inlet temperature"
AGREE = "the GPU is fine: raise the limit that holds it back, or agree on it (contract.event_reasons_allowed)"
REFUSED = "fix this (a job on the GPUs, MIG, no driver), then run again"
ALL = f"8 alike: {', '.join(f'GPU {index}' for index in range(8))}"
UNREAD = "not supported: NVML - see the evidence file for what the node answered"
BUSY = f"node: burn not run: GPU 2 is in use by pid 4711 (python) - {REFUSED}"
DMA_BUF = {"contract.gpudirect_dma_buf": True}
UNSET = {"contract.nccl_unset": "NCCL_ALGO NCCL_PROTO"}


def load(index: int, **values: object) -> Callable[[Document], object]:
    return lambda found: every_window(found, index, **values)


def unread(index: int, quantity: str) -> Callable[[Document], object]:
    def change(found: Document) -> None:
        samples = found["gpus"][index]["samples"]
        samples["unread"] = {quantity: {"why": "not supported", "detail": "NVML"}}
        for window in samples["windows"]:
            window.pop(quantity, None)

    return change


def longer(found: Document) -> None:
    for phase in found["phases"]:
        phase["seconds"] *= 2


REASONS = (
    BurnCase(
        "the power cap, which is allowed",
        "contract.event_reasons",
        PASS,
        f"{ALL}: time with the clock limited 0 %",
    ),
    BurnCase(
        "the power cap, where nothing is allowed",
        "contract.event_reasons",
        FAIL,
        (
            "GPU 0 (0000:19:00.0, S/N 1650001000000): time with the clock limited 100 %, expected at most 0 % "
            "(h100.yaml contract.event_reasons_percent: test); "
            f"by software power cap 100 % of the time - {AGREE} (and 7 more)"
        ),
        limits={"contract.event_reasons_allowed": None},
    ),
    BurnCase(
        "heat for a fifth of the time",
        "contract.event_reasons",
        FAIL,
        (
            f"{GPU3}: time with the clock limited 20 %, expected at most 0 % "
            "(h100.yaml contract.event_reasons_percent: test); by thermal slowdown by the driver "
            f"20 % of the time - {COOLING}"
        ),
        change=load(3, reason_samples={"4": 5, "32": 1}),
    ),
    BurnCase(
        "healthy: idle between two batches",
        "contract.event_reasons",
        PASS,
        f"{ALL}: time with the clock limited 0 %",
        change=load(3, reason_samples={"4": 3, "1": 2}),
    ),
    BurnCase("no burn", "contract.event_reasons", ERROR, BUSY, change=refused),
    BurnCase(
        "a GPU that does not report them",
        "contract.event_reasons",
        ERROR,
        f"{GPU3}: could not read clock event reasons: {UNREAD}",
        change=unread(3, "event_reasons"),
    ),
    BurnCase(
        "no limit",
        "contract.event_reasons",
        NOT_JUDGED,
        "node: no limit contract.event_reasons_percent for platform hgx-h100-8",
        limits={"contract.event_reasons_percent": None},
    ),
)
SPREAD = (
    BurnCase("equally warm", "contract.temperature_spread", PASS, f"{ALL}: temperature above the coolest GPU 0 °C"),
    BurnCase(
        "healthy: five degrees",
        "contract.temperature_spread",
        PASS,
        "7 alike: GPU 0, GPU 1, GPU 2, GPU 4, GPU 5, GPU 6, GPU 7: temperature above the coolest GPU 0 °C",
        change=load(3, temperature_c=[60, 67, 68]),
    ),
    BurnCase(
        "eight degrees",
        "contract.temperature_spread",
        FAIL,
        (
            f"{GPU3}: temperature above the coolest GPU 8 °C, expected at most 5 °C "
            "(h100.yaml contract.temperature_spread_c: test); 70 °C, the coolest 62 °C - "
            f"{COOLING}"
        ),
        change=load(3, temperature_c=[66, 70, 71]),
    ),
    BurnCase(
        "one GPU that was not read",
        "contract.temperature_spread",
        ERROR,
        f"{GPU3}: could not read temperature above the coolest GPU: {UNREAD}",
        change=unread(3, "temperature_c"),
    ),
)
LEVEL = (
    BurnCase("cool", "contract.temperature", PASS, f"{ALL}: temperature under load 64 °C"),
    BurnCase(
        "hot",
        "contract.temperature",
        FAIL,
        (
            f"{GPU3}: temperature under load 86 °C, expected at most 85 °C (h100.yaml contract.temperature_c: test) - "
            f"{COOLING}"
        ),
        change=load(3, temperature_c=[80, 84, 86]),
    ),
    BurnCase("no burn", "contract.temperature", ERROR, BUSY, change=refused),
)
TIME = (
    BurnCase(
        "a minute, where half of one is asked for",
        "contract.burn_time",
        PASS,
        "node: time of the burn 0.0167 h",
    ),
    BurnCase(
        "too short",
        "contract.burn_time",
        FAIL,
        (
            "node: time of the burn 0.0083 h, expected at least 0.01 h "
            "(h100.yaml contract.burn_h: test) - burn again for as long as the contract "
            "asks: --burn 24h"
        ),
        change=lambda found: [each.update(seconds=each["seconds"] / 2) for each in found["phases"]],
    ),
    BurnCase(
        "healthy: the second burn was long enough",
        "contract.burn_time",
        PASS,
        "node: time of the burn 0.0333 h",
        again=(longer,),
    ),
    BurnCase("no burn", "contract.burn_time", ERROR, BUSY, change=refused),
)
CASES = (*REASONS, *SPREAD, *LEVEL, *TIME)


def proprietary(machine: Machine) -> None:
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025"
    machine.set("driver", "version", version)


def nccl_conf(*lines: str) -> Callable[[Machine], None]:
    return lambda machine: machine.set("environment", "nccl_conf", "\n".join(lines))


FACTS = (
    Case(
        "the open kernel module",
        "contract.gpudirect",
        PASS,
        "GPUDirect RDMA: the open kernel module exports GPU memory by dma-buf",
        limits=DMA_BUF,
    ),
    Case(
        "peermem alone",
        "contract.gpudirect",
        FAIL,
        (
            "GPUDirect RDMA: the proprietary kernel module has no dma-buf - install the open kernel module of the "
            "driver, on Linux 5.12 or later"
        ),
        change=proprietary,
        limits=DMA_BUF,
    ),
    Case(
        "peermem on an old kernel",
        "contract.gpudirect",
        FAIL,
        (
            "GPUDirect RDMA: dma-buf is asked for, and Linux 5.10.0-34-amd64 is older than dma-buf for RDMA (5.12) - "
            "install the open kernel module of the driver, on Linux 5.12 or later"
        ),
        change=lambda machine: machine.set("system", "kernel_release", "5.10.0-34-amd64"),
        limits=DMA_BUF,
    ),
    Case(
        "the type of the module was not read",
        "contract.gpudirect",
        ERROR,
        (
            "GPUDirect RDMA: could not read type of kernel module: denied: /proc/driver/nvidia/version - see the "
            "evidence file for what the node answered"
        ),
        change=lambda machine: machine.set(
            "driver", "version", {"why": "denied", "detail": "/proc/driver/nvidia/version"}
        ),
        limits=DMA_BUF,
    ),
    Case("nothing set", "contract.nccl_unset", PASS, "NCCL settings: unset: NCCL_ALGO, NCCL_PROTO", limits=UNSET),
    Case(
        "healthy: another setting",
        "contract.nccl_unset",
        PASS,
        "NCCL settings: unset: NCCL_ALGO, NCCL_PROTO",
        change=nccl_conf("NCCL_DEBUG=INFO"),
        limits=UNSET,
    ),
    Case(
        "an algorithm for every job",
        "contract.nccl_unset",
        FAIL,
        "/etc/nccl.conf: NCCL_ALGO=Ring is set for every job - remove NCCL_ALGO from /etc/nccl.conf",
        change=nccl_conf("NCCL_ALGO=Ring"),
        limits=UNSET,
    ),
    Case(
        "not read",
        "contract.nccl_unset",
        ERROR,
        (
            "/etc/nccl.conf: could not read NCCL settings: denied: /etc/nccl.conf - see the evidence file for what the "
            "node answered"
        ),
        change=lambda machine: machine.set("environment", "nccl_conf", {"why": "denied", "detail": "/etc/nccl.conf"}),
        limits=UNSET,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case_of_a_burn(case: BurnCase) -> None:
    record = judged(case)
    assert (record.message, record.verdict) == (case.message, case.verdict)


@pytest.mark.parametrize("case", FACTS, ids=str)
def test_case_of_facts(case: Case) -> None:
    assert_case(case)
