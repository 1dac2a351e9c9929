"""Running programs of the node: by argument list, with a time limit, in English, with empty stdin."""

import os
import re
import select
import signal
import subprocess
import time
from typing import Iterator, List, NamedTuple, Sequence, Tuple, Union

from nodegate.node_side.probe import child, children, files, reading

OUTPUT_LIMIT = 64 << 10
TOOL_FOLDERS = (
    *("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"),
    *("/usr/local/cuda/bin", "/opt/mellanox/bin", "/opt/nccl-tests/build", "/usr/local/nccl-tests/build"),
    *("/opt/slurm/bin", "/usr/local/slurm/bin", "/opt/hpcx/ompi/bin", "/usr/mpi/gcc/openmpi/bin"),
    *("/opt/nvidia/imex/bin", "/usr/local/nvidia/imex/bin"),
)
_DENIED = re.compile(
    r"(?i)permission denied|operation not permitted|must be root|access denied|not authorized|insufficient permissions"
)


class Output(NamedTuple):
    """What a program wrote and how it ended; a negative exit code is the signal that ended it."""

    exit_code: int
    stdout: str
    stderr: str


def folders() -> List[str]:
    """Where programs are searched for: the login's PATH, then the folders of system and GPU tools."""
    if files.ROOT:
        return [files.rooted(folder) for folder in TOOL_FOLDERS]
    own = [folder for folder in os.environ.get("PATH", "").split(":") if folder.startswith("/")]
    return own + [folder for folder in TOOL_FOLDERS if folder not in own]


def which(name: str) -> str:
    """The path of a program, or empty."""
    for folder in folders():
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""


def run(argv: Sequence[str], limit_s: float, limit_bytes: int = OUTPUT_LIMIT, unset: Sequence[str] = ()) -> Output:
    """Run a program and wait for it; output beyond `limit_bytes` is dropped, variables `unset` are removed.

    Raises:
        reading.CannotRead: it is missing, is not executable, or did not end in time.
    """
    running = _Running(argv, limit_s, unset)
    try:
        written = {1: bytearray(), 2: bytearray()}
        for stream, chunk in running.chunks():
            written[stream] += chunk[: limit_bytes - len(written[stream])]
        return Output(int(running.process.returncode), files.clean(bytes(written[1])), files.clean(bytes(written[2])))
    finally:
        running.end()


def text(argv: Sequence[str], limit_s: float) -> Union[str, reading.Reading]:
    """What a program writes to stdout, as a reading: for a program that fails and writes nothing, its error message."""
    try:
        output = run(argv, limit_s)
    except reading.CannotRead as error:
        return error.reading
    if output.exit_code == 0 or output.stdout.strip():
        return files.without_newline(output.stdout)
    return failure(argv[0], output)


def failure(name: str, output: Output) -> reading.Reading:
    """The reading for a program that failed."""
    how = f"exit code {output.exit_code}"
    if output.exit_code < 0:
        how = children.signal_name(-output.exit_code)
    said = (output.stderr or output.stdout).strip().replace("\n", " ")
    why = "denied" if _DENIED.search(said) else "failed"
    return reading.unknown(why, f"{name}: {how}: {said[-200:]}")


def lines(argv: Sequence[str], limit_s: float) -> Iterator[str]:
    """The lines that a program writes, as they come; the program is ended when the caller stops reading.

    Raises:
        reading.CannotRead: it is missing, was still writing at the time limit, or failed.
    """
    running = _Running(argv, limit_s)
    rest, complaint = b"", bytearray()
    try:
        for stream, chunk in running.chunks():
            if stream == 2:
                complaint += chunk[: OUTPUT_LIMIT - len(complaint)]
                continue
            *whole, rest = (rest + chunk).split(b"\n")
            rest = rest[-OUTPUT_LIMIT:]
            for line in whole:
                yield files.clean(line)
        if rest:
            yield files.clean(rest)
        code = int(running.process.returncode)
        if code != 0:
            raise reading.CannotRead(failure(argv[0], Output(code, "", files.clean(bytes(complaint)))))
    finally:
        running.end()


class _Running:
    """A started program, its two pipes and its deadline: on busy processors it gets its time twice."""

    def __init__(self, argv: Sequence[str], limit_s: float, unset: Sequence[str] = ()) -> None:
        self.name = argv[0]
        self.started = time.monotonic()
        self.deadline = children.Deadline(self.started, limit_s, limit_s, self.started + child.remaining_s())
        path = which(argv[0])
        if not path:
            raise reading.CannotRead(reading.unknown("missing", f"{self.name}: no such program"))
        child.note(" ".join(argv)[:200])
        parent = os.getpid()
        # A small environment: tools answer in English and without a pager, without the caller's own settings.
        names = [name for name in ("HOME", "USER", "LOGNAME", "LD_LIBRARY_PATH") if name not in unset]
        kept = {name: os.environ[name] for name in names if name in os.environ}
        english = {"LC_ALL": "C", "LANG": "C", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"}
        try:
            self.process = subprocess.Popen(
                [path, *list(argv[1:])],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(kept, PATH=":".join(folders()), **english),
                cwd="/",
                preexec_fn=lambda: child.die_with_parent(parent),  # noqa: PLW1509 - there are no threads
            )
        except OSError as error:
            raise reading.CannotRead(files.os_failure(error, self.name)) from None

    def chunks(self) -> Iterator[Tuple[int, bytes]]:
        """What it writes: (1 or 2, bytes), until it has ended and all that it wrote was read."""
        open_pipes = {
            pipe.fileno(): stream for stream, pipe in ((1, self.process.stdout), (2, self.process.stderr)) if pipe
        }
        while open_pipes or self.process.poll() is None:
            if self.deadline.is_over(self._could_go_on):
                took_s, name = self.deadline.at - self.started, self.name
                if self._kill():
                    late = reading.unknown("timeout", f"{name}: not finished within {round(took_s, 1):g} s")
                else:
                    late = reading.unknown("hung", f"{name}: {children.where_it_hangs(self.process.pid)}")
                raise reading.CannotRead(late)
            has_ended = self.process.poll() is not None  # checked first: then everything that it wrote can be read
            pause_s = 0.0 if has_ended else min(self.deadline.left_s(), 0.1 if open_pipes else 0.005)
            readable, _, _ = select.select(list(open_pipes), [], [], pause_s)
            if not readable and has_ended:
                return  # a process that it left behind may still have its pipes open
            for fd in readable:
                chunk = os.read(fd, 1 << 16)
                if chunk:
                    yield open_pipes[fd], chunk
                else:
                    del open_pipes[fd]

    def end(self) -> None:
        if self.process.poll() is None:
            self._kill()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()

    def _could_go_on(self) -> bool:
        return children.is_runnable(self.process.pid)

    def _kill(self) -> bool:
        """End it; false if SIGKILL fails."""
        os.kill(self.process.pid, signal.SIGKILL)
        try:
            self.process.wait(timeout=children.KILL_GRACE_S)
        except subprocess.TimeoutExpired:
            return False
        return True
