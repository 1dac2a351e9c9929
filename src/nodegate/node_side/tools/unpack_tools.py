"""Node side: unpack brought tools into the folder that is kept for them.

Started as `python3 -c SOURCE folder bytes-so-far` with the next piece of the archive on standard input; with `last` as
third argument it unpacks all of it. Prints `ok`, or `cannot <why>`.
"""

import os
import sys
import tarfile

ARCHIVE = ".archive"


def unpack(folder: str) -> None:
    """Unpack the archive, which the controller made, and remove it."""
    path = os.path.join(folder, ARCHIVE)
    tools = os.path.join(folder, "tools")
    os.mkdir(tools, 0o700)
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            parts = member.name.split("/")
            if not (member.isreg() or member.issym() or member.isdir()) or ".." in parts or member.name[:1] == "/":
                raise OSError(0, "not an archive of nodegate", member.name)
            archive.extract(member, tools, set_attrs=not member.issym())
    os.unlink(path)


def main(folder: str, at: str, last: str = "") -> None:
    """Write one piece."""
    try:
        # O_CREAT makes the file only: if the folder is gone, its holder has ended, and this ends too.
        archive = os.open(os.path.join(folder, ARCHIVE), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with open(archive, "wb") as file:
            file.seek(int(at))  # a piece that arrives twice is written twice to the same place
            file.write(sys.stdin.buffer.read())
        if last:
            unpack(folder)
    except (OSError, tarfile.TarError, EOFError) as error:
        print(f"cannot {error}")  # noqa: T201 - the answer
        raise SystemExit(1) from None
    print("ok")  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
