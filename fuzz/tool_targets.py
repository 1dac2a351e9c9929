"""Readers of what tools print on a node."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fuzz.seeds import gids, recordings, small_texts
from fuzz.target import Target, refusals_allowed, text_of
from nodegate.measure.rdma import rails as rdma_rails
from nodegate.probe import driver, environment, services, software
from nodegate.profile import Profile
from nodegate.subjects import fabric_log
from nodegate.tools import (
    fabric_manager,
    gpu_burn,
    nccl_tests,
    nvbandwidth,
    nvidia_smi,
    perftest,
)
from nodegate.verdicts import Verdicts

if TYPE_CHECKING:
    from collections.abc import Callable

STDERR = "\n=stderr=\n"  # in an input: what stands behind it is the tool's stderr


def _each(*parsers: Callable[[str], object]) -> Callable[[bytes], None]:
    """All of these parsers over the same text."""

    def run(data: bytes) -> None:
        text = text_of(data)
        for parse in parsers:
            with refusals_allowed():
                parse(text)

    return run


def _with_stderr(parse: Callable[[str, str], object]) -> Callable[[bytes], None]:
    def run(data: bytes) -> None:
        stdout, _, stderr = text_of(data).partition(STDERR)
        parse(stdout, stderr)

    return run


def _fabric_log(data: bytes) -> None:
    entries = fabric_manager.parse_log(text_of(data))
    for entry in entries:
        fabric_manager.started(entry)
        fabric_manager.local_s(entry)
        fabric_manager.switch_error(entry)
    fabric_log.judge_entries(entries, 0.0, Profile.DELIVERY, Verdicts())


def _burn(stdout: str, stderr: str) -> None:
    gpu_burn.condensed(stdout)
    gpu_burn.parse(stdout, stderr)


def _perftest(stdout: str, stderr: str) -> None:
    perftest.trouble(stdout, stderr)
    perftest.options_in(stdout)
    perftest.parse_version(stdout)
    perftest.parse(stdout)


def _small_texts(data: bytes) -> None:
    """The parsers of single values that the probe's sections share."""
    text = text_of(data)
    driver.version_in(text)
    driver.fields_in(text)
    environment.nccl_settings(text)
    environment.limit_in("Max locked memory", text)
    services.units_in(text)
    software.cuda_version_in(text)
    software.nccl_version_in(text)


TARGETS = {
    "tools.fabric_manager": Target(_fabric_log, partial(recordings, "fabric_manager")),
    "tools.gpu_burn": Target(_with_stderr(_burn), partial(recordings, "gpu_burn")),
    "tools.nccl_tests": Target(_with_stderr(nccl_tests.parse), partial(recordings, "nccl_tests")),
    "tools.nvbandwidth": Target(_with_stderr(nvbandwidth.parse), partial(recordings, "nvbandwidth")),
    "tools.nvidia_smi": Target(
        _each(
            nvidia_smi.parse_xml, nvidia_smi.corrupted_inforoms, nvidia_smi.lost_handles,
        ),
        partial(recordings, "nvidia_smi"),
    ),
    "tools.perftest": Target(_with_stderr(_perftest), partial(recordings, "perftest")),
    "measure.rdma.gids": Target(_each(rdma_rails.parse_gids), gids),
    "probe.small_texts": Target(_small_texts, small_texts),
}  # fmt: skip
