"""A kernel log or journal of a host. What a job printed into it is found line by line, and read as the log of a job."""

import re
from collections.abc import Iterable

from nodegate.knowledge.signature import Hit
from nodegate.knowledge.signatures import find
from nodegate.knowledge.words import UNKNOWN_LINES, Role, Side
from nodegate.triage import details, kernel_log, place, scan
from nodegate.triage.events import Events
from nodegate.triage.job_log import JobLogReader
from nodegate.triage.log import Log
from nodegate.triage.read import text_of

_HEAD_BYTES = 1 << 14
# Programs under which jobs run: an exception of any other one in a host's log may be a service's.
_RUNS_JOBS = re.compile(
    r" (?:python[0-9.]{0,5}|torchrun|accelerate|deepspeed|mpirun|srun|(?:ba)?sh|docker|[0-9a-f]{12})\["
)
_OF_A_PROGRAM = re.compile(r".{8,120} [\w./()-]{1,60}\[[0-9]{1,9}\]: ")
_GENERAL = (*UNKNOWN_LINES, "python_error", "cpp_exception")


class _JobInHostLog(JobLogReader):
    """Reads the lines that are not the host's. `own` counts them and their bytes."""

    own = (0, 0)

    def feed(self, chunk: bytes) -> None:
        """Read the next chunk, with empty lines for those of the host: so each keeps its number."""
        lines = [b"" if kernel_log.is_host_line(text_of(line[:5000])) else line for line in chunk.split(b"\n")]
        said = [len(line) + 1 for line in lines if line]
        self.own = (self.own[0] + len(said), self.own[1] + sum(said))
        super().feed(b"\n".join(lines))


def read(log: Log, chunks: Iterable[bytes], events: Events, hits: dict[str, Hit | None]) -> list[Log]:
    """Read a host's log; beside it the log of the job that printed into it, from the first line that a job prints."""
    kernel = kernel_log.KernelLogReader(log, events)
    job: _JobInHostLog | None = None
    by_form, before = None, b""
    for chunk in chunks:
        if by_form is None:  # a log that is a kernel's by its name alone has lines without a form
            by_form = kernel_log.most_are_host_lines(text_of(chunk[:_HEAD_BYTES]))
        if job is None and by_form and any(_of_a_job(line.text) for line in scan.interesting(chunk)):
            own = Log(f"{log.name} [job]", False, log.place, times=log.times, part_of=log.name)
            own.lines = log.lines - before.count(b"\n")
            job = _JobInHostLog(own, events, hits)
            job.feed(before)
        kernel.feed(chunk)
        if job:
            job.feed(chunk)
        before = chunk
    if job is None:
        return [log]
    job.end()
    job.log.lines, job.log.size_bytes = job.own
    log.lines, log.size_bytes = log.lines - job.own[0], log.size_bytes - job.own[1]
    return [log, job.log]


def _of_a_job(line: str) -> bool:
    """Whether a job printed this line: it names a rank, or an error that only a job has."""
    if kernel_log.is_host_line(line) or details.of_kernel(line):
        return False
    found = place.of_line(line)
    if found.rank is not None or scan.identifies(line):
        return True
    hit = find(found.text, Side.USER)
    if hit is None or hit.signature.role is Role.CONTEXT:
        return False
    general = hit.signature.id in _GENERAL
    return not general or not _OF_A_PROGRAM.match(line) or bool(_RUNS_JOBS.search(line[:200]))
