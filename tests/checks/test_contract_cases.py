"""What the checks say that only some contracts ask for, word for word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.burning import BurnCase, every_window, refused
from support.cases import assert_case
from support.judging import Case

from nodegate.records.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.machine import Machine
    from support.burning import Document

PASS, FAIL, ERROR, SKIP = Verdict.PASS, Verdict.FAIL, Verdict.ERROR, Verdict.SKIP
NOT_JUDGED = Verdict.NOT_JUDGED
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
    BurnCase("the power cap, which is allowed", "contract.event_reasons", PASS),
    BurnCase(
        "the power cap, where nothing is allowed",
        "contract.event_reasons",
        FAIL,
        limits={"contract.event_reasons_allowed": None},
    ),
    BurnCase(
        "heat for a fifth of the time", "contract.event_reasons", FAIL, change=load(3, reason_samples={"4": 5, "32": 1})
    ),
    BurnCase(
        "healthy: idle between two batches",
        "contract.event_reasons",
        PASS,
        change=load(3, reason_samples={"4": 3, "1": 2}),
    ),
    BurnCase("no burn", "contract.event_reasons", ERROR, change=refused),
    BurnCase("a GPU that does not report them", "contract.event_reasons", ERROR, change=unread(3, "event_reasons")),
    BurnCase("no limit", "contract.event_reasons", NOT_JUDGED, limits={"contract.event_reasons_percent": None}),
)
SPREAD = (
    BurnCase("equally warm", "contract.temperature_spread", PASS),
    BurnCase("healthy: five degrees", "contract.temperature_spread", PASS, change=load(3, temperature_c=[60, 67, 68])),
    BurnCase("eight degrees", "contract.temperature_spread", FAIL, change=load(3, temperature_c=[66, 70, 71])),
    BurnCase("one GPU that was not read", "contract.temperature_spread", ERROR, change=unread(3, "temperature_c")),
)
LEVEL = (
    BurnCase("cool", "contract.temperature", PASS),
    BurnCase("hot", "contract.temperature", FAIL, change=load(3, temperature_c=[80, 84, 86])),
    BurnCase("no burn", "contract.temperature", ERROR, change=refused),
)
TIME = (
    BurnCase("a minute, where half of one is asked for", "contract.burn_time", PASS),
    BurnCase(
        "too short",
        "contract.burn_time",
        FAIL,
        change=lambda found: [each.update(seconds=each["seconds"] / 2) for each in found["phases"]],
    ),
    BurnCase("healthy: the second burn was long enough", "contract.burn_time", PASS, again=(longer,)),
    BurnCase("no burn", "contract.burn_time", ERROR, change=refused),
)
CASES = (*REASONS, *SPREAD, *LEVEL, *TIME)


def proprietary(machine: Machine) -> None:
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025"
    machine.set("driver", "version", version)


def nccl_conf(*lines: str) -> Callable[[Machine], None]:
    return lambda machine: machine.set("environment", "nccl_conf", "\n".join(lines))


FACTS = (
    Case("the open kernel module", "contract.gpudirect", PASS, limits=DMA_BUF),
    Case("peermem alone", "contract.gpudirect", FAIL, change=proprietary, limits=DMA_BUF),
    Case(
        "peermem on an old kernel",
        "contract.gpudirect",
        FAIL,
        change=lambda machine: machine.set("system", "kernel_release", "5.10.0-34-amd64"),
        limits=DMA_BUF,
    ),
    Case(
        "the type of the module was not read",
        "contract.gpudirect",
        ERROR,
        change=lambda machine: machine.set(
            "driver", "version", {"why": "denied", "detail": "/proc/driver/nvidia/version"}
        ),
        limits=DMA_BUF,
    ),
    Case("nothing set", "contract.nccl_unset", PASS, limits=UNSET),
    Case("healthy: another setting", "contract.nccl_unset", PASS, change=nccl_conf("NCCL_DEBUG=INFO"), limits=UNSET),
    Case("an algorithm for every job", "contract.nccl_unset", FAIL, change=nccl_conf("NCCL_ALGO=Ring"), limits=UNSET),
    Case(
        "not read",
        "contract.nccl_unset",
        ERROR,
        change=lambda machine: machine.set("environment", "nccl_conf", {"why": "denied", "detail": "/etc/nccl.conf"}),
        limits=UNSET,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case_of_a_burn(case: BurnCase) -> None:
    assert_case(case)


@pytest.mark.parametrize("case", FACTS, ids=str)
def test_case_of_facts(case: Case) -> None:
    assert_case(case)
