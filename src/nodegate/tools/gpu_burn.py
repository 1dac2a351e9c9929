"""gpu_burn (wilicc/gpu-burn): what it prints during the burn, and the list of GPUs at its end.

Its exit code is always 0, and a GPU that never ran is listed OK: only the reports show which GPUs worked.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from nodegate.errors import CannotMeasure
from nodegate.text import shown
from nodegate.unknown import Known, Unknown, Why

MAX_TEXT = 4 << 20
MAX_GPUS = 64
_REPORTS_KEPT = 120
_FIRST_KEPT = 8
_ESCAPE = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_BREAK = re.compile(r"[\r\n]+")
_LISTED = re.compile(r"GPU ([0-9]{1,3}): (.{1,120}?) \(UUID: GPU-[0-9a-fA-F-]{8,60}\)")
_BEGUN = re.compile(
    r"Initialized device ([0-9]{1,3}) with .{1,120}, using (?:FLOATS|DOUBLES)(?:,? ?(?:using )?(Tensor Cores))?"
)
_PERCENT = re.compile(r"[0-9]{1,3}(?:\.[0-9]{1,2})?%\s{1,8}proc'd:")
_WORK = re.compile(r"(-?[0-9]{1,12}) \((-?(?:[0-9]{1,12}|nan|inf)) Gflop/s\)")
_ERRORS = re.compile(r"(-?[0-9]{1,12})\s{0,4}(?:\((WARNING|DIED)!\))?")
_ENDED = re.compile(r"\s{0,16}GPU ([0-9]{1,3}): (OK|FAULTY)")
_TOLD = re.compile(
    r"Couldn't init|Failure during compute|No CUDA devices|No clients are alive|Syntax error|cuInit returned [1-9]"
)


@dataclass(frozen=True)
class BurntGpu:
    """One GPU of a run. `index` is CUDA's.

    `gflops` are the rates of its reports in their order (Gflop/s), each report once; the first one contains the start.
    `processed` are the products that it has done, `errors` the wrong elements over all reports. `died`: its
    process ended early. `verdict` is gpu_burn's own at the end: OK means nothing if `processed` is 0.
    """

    index: int
    name: Known[str]
    gflops: tuple[float, ...]
    processed: int
    errors: int
    died: bool
    verdict: Known[str]

    @property
    def rate_gflops(self) -> Known[float]:
        """The median of the reports without the first; unknown with fewer than two."""
        if len(self.gflops) < 2:
            return Unknown(Why.MISSING, f"{len(self.gflops)} reports: the run was too short for two")
        return median(self.gflops[1:])


@dataclass(frozen=True)
class GpuBurnRun:
    """One run. `told` are its error messages.

    `listed` is the number of GPUs that nvidia-smi listed for it: with fewer in `gpus` some did not take part.
    """

    gpus: tuple[BurntGpu, ...]
    listed: int
    tensor_cores: bool
    told: tuple[str, ...]


@dataclass
class _Tally:
    processed: int = 0
    counted: int = 0  # errors of the finished summaries
    errors: int = 0  # errors of the present one
    died: bool = False
    gflops: list[float] = field(default_factory=list)

    def report(self, processed: int, rate: float, errors: int, *, died: bool) -> None:
        if processed > self.processed:
            self.processed = processed
            self.gflops += [rate] if rate > 0 else []
        self.died = self.died or processed < 0 or died
        if not self.died:  # what it adds for a dead process was not counted
            self.errors = max(self.errors, errors)

    def summary(self) -> None:
        """gpu_burn sets its error counts to zero after each summary."""
        self.counted, self.errors = self.counted + self.errors, 0

    def gpu(self, index: int, listed: dict[int, str], ended: str | None) -> BurntGpu:
        name = listed.get(index, Unknown(Why.MISSING, "nvidia-smi -L did not list it"))
        verdict = ended or Unknown(Why.MISSING, "gpu_burn did not reach its list of GPUs")
        errors = self.counted + self.errors
        return BurntGpu(index, name, tuple(self.gflops), self.processed, errors, self.died, verdict)


def parse(stdout: str, stderr: str = "") -> GpuBurnRun:
    """The output of a run, which may be truncated in its middle or at its end.

    Raises:
        CannotMeasure: it has neither a report nor a list at its end, or a report cannot be read.
    """
    lines = list(_lines(stdout))
    told = tuple(shown(line, 200) for line in dict.fromkeys((*_lines(stderr), *lines)) if _TOLD.search(line))[:16]
    tallies = _reports(lines)
    ended = {int(match[1]): match[2] for line in lines if (match := _ENDED.fullmatch(line.rstrip()))}
    if not tallies and not ended:
        last = next(iter([*told, *reversed(list(_lines(stderr))), *reversed(lines)]), "")
        what = f"printed no report: {shown(last.strip(), 160)}" if last else "printed nothing"
        raise CannotMeasure(f"gpu_burn {what}", next_step="run gpu_burn on the node by hand, in its own folder")
    columns = min(max(len(tallies), len(ended)), MAX_GPUS)
    listed = {int(match[1]): match[2] for line in lines if (match := _LISTED.match(line))}
    begun = {int(match[1]): match for line in lines if (match := _BEGUN.match(line))}
    # With -i N there is one column, called GPU 0, and only the start names the device.
    indices = list(begun) if columns == len(begun) == 1 else range(columns)
    return GpuBurnRun(
        gpus=tuple(tallies.get(at, _Tally()).gpu(index, listed, ended.get(at)) for at, index in enumerate(indices)),
        listed=len(listed),
        tensor_cores=any(match[2] for match in begun.values()),
        told=told,
    )


def condensed(stdout: str) -> str:
    """The same output with at most some 150 reports, so that a long run can be kept.

    It keeps the last report of each state, every one before a change of the error counts or a summary, the first
    eight, and an even selection of the rest. All other lines stay.
    """
    lines = list(_lines(stdout))
    states = [_state(line) for line in lines]
    pairs = list(enumerate(zip(states, [*states[1:], None], strict=False)))
    lasting = [number for number, (state, following) in pairs if state is not None and following != state]
    step = max(len(lasting) // _REPORTS_KEPT, 1)
    chosen = {number for place, number in enumerate(lasting) if place < _FIRST_KEPT or place % step == 0}
    chosen |= {number for number, (state, following) in pairs if state and (not following or following[1] != state[1])}
    return "".join(f"{line}\n" for number, line in enumerate(lines) if states[number] is None or number in chosen)


def _state(line: str) -> tuple[str, str] | None:
    """Work and errors of a report; None for any other line."""
    if "proc'd:" not in line or "errors:" not in line:
        return None
    work, _, rest = line.partition("proc'd:")[2].partition("errors:")
    return work, rest.partition("temps:")[0]


def _lines(written: str) -> Iterator[str]:
    """Progress is rewritten in place by carriage returns: each state is a line."""
    for line in _BREAK.split(_ESCAPE.sub("", written[:MAX_TEXT])):
        if line.strip():
            yield line


def _reports(lines: list[str]) -> dict[int, _Tally]:
    tallies: dict[int, _Tally] = {}
    for line in lines:
        if "Summary at:" in line:
            for tally in tallies.values():
                tally.summary()
        if not _PERCENT.match(line.strip()) or "errors:" not in line or "temps:" not in line:
            continue  # not a report, or a truncated one
        for column, (done, wrong) in enumerate(_columns(line)):
            rate = float(done[2])
            tallies.setdefault(column, _Tally()).report(
                int(done[1]), rate if 0.0 < rate < 1e9 else 0.0, abs(int(wrong[1])), died=wrong[2] == "DIED"
            )
    return tallies


def _columns(line: str) -> list[tuple[re.Match[str], re.Match[str]]]:
    work, _, rest = line.partition("proc'd:")[2].partition("errors:")
    works = [_WORK.fullmatch(each.strip()) for each in work.split("- ")[:MAX_GPUS]]
    errors = [_ERRORS.fullmatch(each.strip()) for each in rest.partition("temps:")[0].split("- ")[:MAX_GPUS]]
    found = [(done, wrong) for done, wrong in zip(works, errors, strict=False) if done and wrong]
    if not found or not len(found) == len(works) == len(errors):
        raise CannotMeasure(
            f"a report of gpu_burn cannot be read: {shown(line.strip(), 160)}",
            next_step="run gpu_burn on the node by hand",
        )
    return found
