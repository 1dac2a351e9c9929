"""What nodegate's one file for compute nodes starts with: unpacked once, it runs like an installed package.

Checks and limits are files that are read by their paths, and Python keeps no bytecode of what it imports from an
archive. So the content goes to a folder that only this user can have written; where there is none, to one of this run.
"""

import hashlib
import os
import shutil
import stat
import sys
import tempfile
import zipfile
from typing import NoReturn

CANNOT_TELL = 2  # Python's own 1 would be a verdict on the node
RUN = "/run/nodegate"
COMMANDS = ("bootcheck", "hook")


def main() -> None:
    arguments = sys.argv[1:]
    if sys.version_info < (3, 10):  # noqa: UP036 - whatever Python the node has starts this file
        stop(f"nodegate needs Python 3.10 or newer, this is {sys.version.split()[0]}")
    if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        stop(f"this file has the commands {' and '.join(COMMANDS)} only: install nodegate for {arguments[0]}")
    if "--active" in arguments:
        stop("this file has no numpy and scipy: install nodegate for --active")
    try:
        folder, once = unpacked(sys.path[0])
    except (OSError, zipfile.BadZipFile) as fault:
        stop(f"nodegate's file could not be unpacked ({fault})")
    sys.path[0] = folder
    try:
        from nodegate.cli import main as run  # noqa: PLC0415 - it lies in the folder

        code = run(arguments)
    except ImportError as fault:
        stop(f"nodegate's file is damaged ({fault})")
    finally:
        if once:
            shutil.rmtree(folder, ignore_errors=True)
    sys.exit(code)


def stop(why: str) -> NoReturn:
    """Say why there is no answer, and end."""
    print(f"could not tell: {why}")
    sys.exit(CANNOT_TELL)


def unpacked(archive: str) -> "tuple[str, bool]":
    """The folder with the archive's content, and whether it is for this run alone."""
    with open(archive, "rb") as file:
        name = "nodegate-" + hashlib.sha256(file.read()).hexdigest()[:32]
    try:
        home = kept_in()
        folder = os.path.join(home, name)
        if not os.path.lexists(folder):
            fresh = extract(archive, home)
            try:
                os.rename(fresh, folder)
            except OSError:  # another one was quicker
                shutil.rmtree(fresh)
        if is_ours(folder):
            return folder, False
    except OSError:
        pass
    return extract(archive, None), True


def kept_in() -> str:
    """Where the content is kept: for root until the next boot, for others in their cache."""
    if os.geteuid() == 0:
        home = RUN
    else:
        home = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "nodegate")
    os.makedirs(home, mode=0o755, exist_ok=True)
    if not is_ours(home):
        raise PermissionError(home)
    return home


def is_ours(folder: str) -> bool:
    """Whether it is a folder, no link to one, that nobody else can have written into."""
    status = os.lstat(folder)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def extract(archive: str, home: "str | None") -> str:
    """Unpack into a new folder below `home`."""
    folder = tempfile.mkdtemp(prefix="nodegate-new-", dir=home)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder)
    return folder


if __name__ == "__main__":
    main()
