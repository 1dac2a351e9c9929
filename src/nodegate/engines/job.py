"""The job that this process runs in: what `nodegate gang` needs of it, behind which it knows no scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Ended:
    """A launch: its exit code (None: it was ended after its time), and what it printed, 1 MiB of each at most."""

    exit_code: int | None
    stdout: str
    stderr: str


class Job(Protocol):
    """A job: its name, its nodes in the scheduler's order, and the GPUs of each (0: the scheduler does not say)."""

    @property
    def job(self) -> str: ...  # noqa: D102

    @property
    def nodes(self) -> tuple[str, ...]: ...  # noqa: D102

    @property
    def gpus(self) -> int: ...  # noqa: D102

    def step(self, nodes: Sequence[str], ranks: int, words: Sequence[str], limit_s: float, network: str = "") -> Ended:
        """A program with so many ranks on each of these nodes, beside whatever else runs in the job.

        `network` is where ranks of MPI meet, as `measure.groups.settings.networks` says it; empty: not known.
        """
        ...
