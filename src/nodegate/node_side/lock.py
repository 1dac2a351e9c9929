"""Node side: hold the node's lock until this process is ended. Run under the guard as `python3 -c SOURCE path who`.

Prints one line: `held <path>`, `busy <who holds it>` (exit 75, EX_TEMPFAIL) or `cannot <why>` (exit 73, EX_CANTCREAT).
"""

import fcntl
import os
import signal
import stat
import sys


def open_lock(path: str) -> int:
    """A descriptor of the lock file; another user's file is locked without write permission."""
    flags = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o644)
    except PermissionError:
        fd = os.open(path, os.O_RDONLY | flags)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(0, "is not a regular file", path)
    return fd


def open_first(paths: "list[str]") -> "tuple[str, int]":
    """The first path that can be opened."""
    reasons = []
    for path in paths:
        try:
            return path, open_lock(path)
        except OSError as error:  # noqa: PERF203
            reasons.append(f"{path}: {error.strerror}")
    sys.stdout.write("cannot " + "; ".join(reasons) + "\n")
    raise SystemExit(73)


def main(path: str, who: str) -> None:
    """Take the lock and keep it, or report who has it."""
    path, fd = open_first([path, f"/tmp/nodegate-{os.getuid()}.lock"])  # noqa: S108 - O_NOFOLLOW, plain file, own name
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.stdout.write("busy " + os.read(fd, 200).decode("utf-8", "replace") + "\n")
        raise SystemExit(75) from None
    try:
        os.ftruncate(fd, 0)
        os.write(fd, who.encode()[:200])
    except OSError:
        pass  # another user's file: it is locked anyway, but the holder's name is not updated
    sys.stdout.write(f"held {path}\n")
    sys.stdout.flush()
    while True:
        signal.pause()
