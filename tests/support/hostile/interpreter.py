"""What runs on a node of the hostile fleet in place of its python3: `interpreter.py KIND DOCUMENT [ARGUMENT...]`.

Programs other than the probe run as they are. In the probe's place comes what the node would send: its document, with
the time of now. A kind that is not `healthy` does something else, for the guard or for the probe.
"""

import base64
import os
import select
import signal
import struct
import sys
import time
import zlib
from pathlib import Path

PYTHON = "/usr/bin/python3"
MARK = b"nodegate.probe/1+zlib:"
YEARS_S = 5 * 365.25 * 86400
DRIVER_S = 8.0  # until the probe gives up the driver's calls


def send(data):
    """Write bytes to standard output, whole."""
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def answer(document, offset_s=0.0, after_s=0.0):
    """Take the probe's source, send the document as the probe does."""
    began_s = time.monotonic()
    epoch_s = time.time() + offset_s
    sys.stdin.buffer.read()
    text = Path(document).read_bytes()
    time.sleep(after_s)
    took_s = time.monotonic() - began_s
    text = text.replace(b'"@EPOCH@"', b"%f" % epoch_s, 1).replace(b'"@TOOK@"', b"%.4f" % took_s, 1)
    send(b"\n" + MARK + base64.b64encode(zlib.compress(text, 6)) + b"\n")


def bomb(document):
    """A document of some kilobytes that unpacks to gigabytes."""
    sys.stdin.buffer.read()
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(b" " * (1 << 20)) for _ in range(1024)) + packer.flush()
    send(b"\n" + MARK + base64.b64encode(packed) + b"\n")


def noise(document):
    """A gigabyte in place of the document, or of the guard's first word."""
    for _ in range(1024):
        send(b"\xff\x00garbage\n" * 104858)


def trickle(document):
    """One byte a second."""
    while True:
        send(b".")
        time.sleep(1.0)


def hang(document):
    """A probe that the driver holds: no signal but the last ends it."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(3600)


def random_document(document):
    """Garbage in place of the document."""
    sys.stdin.buffer.read()
    send(b"\n" + MARK + os.urandom(20000) + b"\n")


def false_guard(flood):
    """Answer as the guard does, with its marker, then send frames without end."""
    source = sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))
    head = sys.stdin.buffer.read(int(sys.stdin.buffer.readline()))
    assert source
    marker = head.split(b'"marker": "')[1].split(b'"')[0]
    send(marker + b"\n")
    if not flood:
        stay()
        return
    frame = struct.pack(">cI", b"O", 65536) + b"\0" * 65536
    while True:
        send(frame)


def stay():
    """Until the connection ends, as what a login runs does."""
    while sys.stdin.buffer.read(65536):
        pass


def stop_the_server(document):
    """The node freezes: its sshd does not run any more, its kernel still answers."""
    os.kill(os.getppid(), signal.SIGSTOP)
    stay()


def errors(document):
    """Complaints without end on standard error."""
    while True:
        select.select([], [2], [])
        os.write(2, b"NVRM: it does not work\n" * 1000)


PROBES = {
    "healthy": answer,
    "hung-driver": lambda document: answer(document, after_s=DRIVER_S),
    "clock-ahead": lambda document: answer(document, YEARS_S),
    "clock-behind": lambda document: answer(document, -YEARS_S),
    "hung-probe": hang,
    "bomb": bomb,
    "gigabyte": noise,
    "random-document": random_document,
    "slow-document": trickle,
}
GUARDS = {
    "login-gigabyte": lambda: noise(""),
    "login-slow": lambda: trickle(""),
    "frozen": lambda: stop_the_server(""),
    "endless-frames": lambda: false_guard(flood=True),
    "guard-alone": lambda: false_guard(flood=False),
    "endless-errors": lambda: errors(""),
}


def main():
    """Run as the kind says."""
    kind, document, *arguments = sys.argv[1:]
    if kind in GUARDS:
        GUARDS[kind]()
    elif arguments and arguments[-1] == "-":
        PROBES[kind](document)
    else:
        os.execv(PYTHON, [PYTHON, *arguments])  # noqa: S606 - it becomes the interpreter


main()
