"""Node side: keep a folder for brought tools while the controller runs, and remove it in any case.

Started under the guard as `python3 -c SOURCE bytes`. Prints one line: `held <folder>`, or `cannot <why>` with exit 73
(EX_CANTCREAT). Two processes: this one runs until it is ended, and does nothing; its child makes the folder, waits on
a pipe for its parent's end and then removes the folder: even after SIGKILL, which cannot be caught.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PLACES = ("/dev/shm", "/tmp", "/var/tmp", "~")  # noqa: S108 - a new folder of mode 0700 is made in it
SPARE_BYTES = 64 << 20
REMOVE_S = 20.0
TRY_S = 5.0


def why_not(folder: str, size: int) -> str:
    """Why programs of this size cannot be kept in a new folder; empty if they can."""
    room = os.statvfs(folder)
    free = room.f_bavail * room.f_frsize
    if free < size + SPARE_BYTES:
        return f"{free >> 20} MiB free, {(size + SPARE_BYTES) >> 20} MiB needed"
    script, quiet = os.path.join(folder, ".may-run"), subprocess.DEVNULL
    with open(script, "w") as file:
        file.write("#!/bin/sh\nexit 0\n")
    os.chmod(script, 0o700)
    try:
        code = subprocess.call([script], stdin=quiet, stdout=quiet, stderr=quiet, timeout=TRY_S)
    except subprocess.TimeoutExpired:
        return f"a program run there did not end within {TRY_S:g} s"
    except OSError as error:
        return f"programs cannot be run there ({error.strerror}): mounted noexec?"
    os.unlink(script)
    return "" if code == 0 else f"a program run there ended with exit code {code}"


def make_folder(size: int) -> str:
    """A new folder of mode 0700 where programs can be kept and run; otherwise this program ends."""
    reasons = []
    for place in PLACES:
        place = os.path.expanduser(place)  # noqa: PLW2901
        try:
            folder = tempfile.mkdtemp(prefix="nodegate-tools-", dir=place)
        except OSError as error:
            reasons.append(f"{place}: {error.strerror}")
            continue
        try:
            why = why_not(folder, size)
        except OSError as error:
            why = str(error.strerror)
        if not why:
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        reasons.append(f"{place}: {why}")
    print("cannot " + "; ".join(reasons), flush=True)  # noqa: T201 - the answer
    raise SystemExit(73)


def hold(size: int, end: int) -> int:
    """The child: make the folder, print its path, remove it when the other end of the pipe is closed."""
    folder = make_folder(size)
    try:
        print(f"held {folder}", flush=True)  # noqa: T201 - the answer
        os.read(end, 1)
    finally:
        until = time.monotonic() + REMOVE_S
        while os.path.lexists(folder) and time.monotonic() < until:  # a program may still write into it
            shutil.rmtree(folder, ignore_errors=True)
            time.sleep(0.05)
    return 0


def main(size: str) -> None:
    """Start the child, and run as long as it does."""
    end, ours = os.pipe()  # nothing is written into it; it ends with this process
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    for number in numbers:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)  # during the fork: none of them ends the child, none is lost
    child = os.fork()
    if child == 0:
        os.close(ours)
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
        code = 1
        try:
            code = hold(int(size), end)
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            os._exit(code)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    os.close(end)
    raise SystemExit(os.waitpid(child, 0)[1] >> 8)


if __name__ == "__main__":
    main(*sys.argv[1:])
