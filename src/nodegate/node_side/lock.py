"""Node side: hold the node's lock until this process is ended. Run under the guard as `python3 -c SOURCE path who`.

Prints one line: `held <path>`, `busy <who holds it>` (exit 75, EX_TEMPFAIL) or `cannot <why>` (exit 73, EX_CANTCREAT).

The file of the lock can be opened by its owner alone, so no other user can hold it. Logins other than root's have a
file of their own where all users may write; they also respect the locks of others, which /proc/locks lists by inode.
"""

import fcntl
import glob
import os
import signal
import stat
import sys


def is_shared(path: str) -> bool:
    """Whether every user may make files in this folder."""
    try:
        return bool(os.stat(os.path.dirname(path)).st_mode & stat.S_IWOTH)
    except OSError:
        return False


def places(path: str) -> "list[str]":
    """Where this user's lock may be, best first."""
    me = os.geteuid()
    own = f"{path}.{me}" if me != 0 and is_shared(path) else path
    return [own, f"/tmp/nodegate-{me}.lock"]  # noqa: S108 - O_NOFOLLOW, plain file, own name, own owner


def open_lock(path: str) -> int:
    """A descriptor of this user's lock file."""
    me = os.geteuid()
    try:
        owner = os.lstat(path).st_uid
    except OSError:
        owner = me
    if owner != me and me == 0 and is_shared(path):
        os.unlink(path)  # root's place, taken by a user
    elif owner != me:
        raise OSError(0, f"belongs to user {owner}", path)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != me:
        os.close(fd)
        raise OSError(0, "is not a regular file of this user", path)
    if stat.S_IMODE(found.st_mode) != 0o600:
        os.fchmod(fd, 0o600)  # made by an earlier release
    return fd


def holder_of(path: str, skip: int) -> "int | None":
    """The process that holds the lock of a file, which this user need not be able to open; None if none but `skip`."""
    try:
        found = os.stat(path)
        wanted = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        with open("/proc/locks") as locks:  # 1: FLOCK  ADVISORY  WRITE 4711 00:19:1234 0 EOF
            rows = [line.split() for line in locks]
    except OSError:
        return None
    for row in rows:
        if len(row) > 5 and row[1] == "FLOCK" and row[5] == wanted and int(row[4]) != skip:
            return int(row[4])
    return None


def words_of(pid: int) -> "list[str]":
    """The command line of a process."""
    with open(f"/proc/{pid}/cmdline", "rb") as command:
        return command.read(65536).decode("utf-8", "replace").rstrip("\0").split("\0")


def is_ours(words: "list[str]") -> bool:
    """Whether it is that of this program, whose last word is what it signs with."""
    return words[1:4] == ["-I", "-S", "-c"]


def signature(path: str, fd: int) -> str:
    """What the holder of this user's lock signs with. In the file it is only a moment after the lock is taken."""
    holder = holder_of(path, os.getpid())
    try:
        words = [] if holder is None else words_of(holder)
        if is_ours(words):
            return words[-1][:200]
    except OSError:
        pass
    return os.read(fd, 200).decode("utf-8", "replace")


def described(pid: int) -> str:
    """A process for people: what it signs with if it is one of ours, else its user and name."""
    try:
        words, user = words_of(pid), os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return f"process {pid}"
    if is_ours(words):
        return f"{words[-1][:200]}, as user {user}"
    command_line = " ".join(" ".join(words).split())[:100]
    return f"process {pid} of user {user}: {command_line}"


def main(path: str, who: str) -> None:
    """Take the lock and keep it, or report who has it."""
    asked, reasons = path, []
    for path in places(asked):  # noqa: PLR1704 - the first one that can be opened
        try:
            fd = open_lock(path)
            break
        except OSError as error:
            reasons.append(f"{path}: {error.strerror}")
    else:
        sys.stdout.write("cannot " + "; ".join(reasons) + "\n")
        raise SystemExit(73)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.stdout.write("busy " + signature(path, fd) + "\n")
        raise SystemExit(75) from None
    if os.geteuid() != 0:
        others = [asked, *glob.glob(glob.escape(asked) + ".*"), *glob.glob("/tmp/nodegate-*.lock")]  # noqa: S108
        for other in others:
            holder = holder_of(other, os.getpid())
            if holder is not None:
                sys.stdout.write("busy " + described(holder) + "\n")
                raise SystemExit(75)
    try:
        os.ftruncate(fd, 0)
        os.write(fd, who.encode()[:200])
    except OSError:
        pass  # a full disk: it is locked anyway, without the holder's name
    sys.stdout.write(f"held {path}\n")
    sys.stdout.flush()
    while True:
        signal.pause()
