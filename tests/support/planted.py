"""Every known line planted in healthy logs of any size, and those among them that triage did not find.

Which row a planted line has is decided here by trying all patterns one after the other, without any quick look before.
The healthy lines are written by hand, in the formats of launchers, frameworks, NCCL and kernels.
"""

import random
from collections.abc import Generator
from datetime import datetime, timezone
from typing import NamedTuple

from support.patterns import alternatives

from nodegate.knowledge import kernel_signatures
from nodegate.knowledge.signatures import signatures
from nodegate.knowledge.words import UNKNOWN_LINES, Role, Side
from nodegate.triage import sources
from nodegate.triage.reading import read

NOW_S = 1_795_000_000.0
BOOT_S = NOW_S - 40 * 86_400
_LINE_S, _MINUTE_S = 0.01, 61.0
_BLOCK_LINES = 100  # of one format, then another follows
_FRESH_LINES = 24
_QUOTES = "terminated with exception: "  # what follows is the error, the watchdog only says it
_CODES = ("xid_", "sxid_")


class Plant(NamedTuple):
    """A line that was planted: the rows that are right for it, and its number in the file."""

    row: str
    text: str
    right: frozenset[str]
    line: int = 0


def plants(side):
    """The example of every row, and a text for each alternative of its pattern, at any depth."""
    found = {}
    for signature in signatures():
        if signature.side is side:
            of_codes = signature.id.startswith(_CODES)  # one pattern for all codes, and none of a form is without one
            for form in (signature.example, *(() if of_codes else alternatives(signature.pattern))):
                text = form + "seven" * form.endswith(" ")  # no line of a kernel log ends with a blank
                found.setdefault(text, Plant(signature.id, text, right(text, side)))
    assert all(each.right for each in found.values())
    return list(found.values())


def right(text, side):
    """The rows that are right for a line: the first one whose pattern fits, without any quick look."""
    row = _first(text, side)
    rows = {row.id} if row else set()
    if side is Side.USER and (row is None or row.id in UNKNOWN_LINES):
        of_kernel = _first(text, Side.KERNEL)
        rows = {of_kernel.id} if of_kernel is not None and of_kernel.role is not Role.CONTEXT else rows
    quoted = _first(text.partition(_QUOTES)[2], side)
    return frozenset({quoted.id} if quoted else rows)


def _first(text, side):
    if side is Side.KERNEL and (hit := kernel_signatures.find_code(text)):
        return hit.signature
    wanted = (each for each in signatures() if each.side is side and not each.id.startswith(_CODES))
    return next((each for each in wanted if each.pattern.search(text)), None)


def write(path, side, size):
    """A healthy log of about this many bytes in which all lines are planted, spread evenly; returns where they are.

    Before each planted line stand `_FRESH_LINES` new lines, and as many copies of them as the size needs.
    """
    planted = plants(side)
    healthy = _kernel_lines() if side is Side.KERNEL else _job_lines()
    next(healthy)
    found: list[Plant] = []
    number = 0
    with path.open("wb") as stream:
        for place, plant in enumerate([*planted, None]):
            lines = [next(healthy) for _ in range(_FRESH_LINES)]
            fresh = "".join(f"{line}\n" for line in lines).encode()
            copies = max(1, (size * (place + 1) // (len(planted) + 1) - stream.tell()) // len(fresh))
            for _ in range(copies):
                stream.write(fresh)
            number += copies * _FRESH_LINES + 1
            if plant:
                stream.write(f"{healthy.send((place, plant.text))}\n".encode())
                found.append(plant._replace(line=number))
    return found


def missed(path, side, planted):
    """The planted lines that triage did not find with a right row, each as a sentence."""
    names = ([], [str(path)]) if side is Side.KERNEL else ([str(path)], [])
    case = read(sources.find(*names), now_s=NOW_S)
    found = {event.line: event.kind.id for event in case.events}
    return [
        f"{each.row}, line {each.line}: found as {found.get(each.line, 'nothing')}, right is {sorted(each.right)}: "
        f"{each.text[:120]!r}"
        for each in planted
        if found.get(each.line) not in each.right
    ]


Healthy = Generator[str, "tuple[int, str] | None", None]


def _job_lines():
    """Healthy lines of a job without end, in blocks of one format; what is sent comes as the line of a rank."""
    chance, step = random.Random(20), 0  # noqa: S311
    sent = yield ""
    while True:
        form = chance.choice(_JOB_FORMS)
        for _ in range(_BLOCK_LINES):
            step += 1
            if sent is None:
                sent = yield form(step, chance)
            else:
                sent = yield f"[rank{sent[0]}]: {sent[1]}"


def _megatron(step, chance):
    return (
        f"{chance.randrange(64)}:  [{_clock(step)}.{step % 1000:03}] step {step:8}/ 9000000 | tokens {step * 4096} |"
        f" ms per step {2000 + chance.random() * 90:.1f} | lm loss {7 - step % 500 / 100:.3f} | tflops 412.7 |"
    )


def _trainer(step, chance):
    loss, norm = chance.random(), chance.random()
    return f"{{'loss': {loss:.4f}, 'grad_norm': {norm:.3f}, 'learning_rate': 2e-05, 'epoch': {step / 1e5:.2f}}}"


def _nccl(step, chance):
    return (
        f"gpu{chance.randrange(64):03}:{1000 + step % 90000}:{step % 70000} [{step % 8}] NCCL INFO Channel"
        f" {step % 16:02}/0 : {step % 512}[{step % 8}] -> {(step + 8) % 512}[{step % 8}] [receive] via NET/IB/2/GDRDMA"
    )


def _bar(step, chance):
    done, left = step % 100, chance.randrange(60)
    return f"\rEpoch 3:  {done}%|{'#' * (step % 40):40}| {done}/100 [{step % 60:02}:11<{left:02}:59, 1.21s/it]"


def _loader(step, chance):
    return f"{_clock(step)},{step % 1000:03} - loader - INFO - shard {step} of bucket {chance.randrange(900)} 已读取"


def _json(step, chance):
    when, took = _clock(step).replace(" ", "T"), chance.random()
    return f'{{"time": "{when}Z", "level": "info", "logger": "saver", "message": "saved shard {step} in {took:.2f} s"}}'


def _server(step, chance):
    running = chance.randrange(256)
    return f"\x1b[32mINFO\x1b[0m {_clock(step)} worker.py:88] cache usage: {step % 90}.1%, running: {running} reqs"


_JOB_FORMS = [_megatron, _trainer, _nccl, _bar, _loader, _json, _server]


def _kernel_lines():
    """Healthy lines of a kernel without end; each that is sent has a minute of its own."""
    chance, uptime, after = random.Random(21), 1000.0, False  # noqa: S311
    sent = yield ""
    while True:
        form = chance.choice(_KERNEL_FORMS)
        for _ in range(_BLOCK_LINES):
            uptime += _MINUTE_S if sent is not None or after else _LINE_S
            after = sent is not None
            text = sent[1] if sent else chance.choice(_KERNEL_TEXTS).format(chance.randrange(1 << 20))
            sent = yield form(uptime, datetime.fromtimestamp(BOOT_S + uptime, timezone.utc), text)


_KERNEL_FORMS = [
    lambda uptime, when, text: f"[{uptime:12.6f}] {text}",
    lambda uptime, when, text: f"{when:%Y-%m-%dT%H:%M:%S.%f}+0000 gpu07 kernel: {text}",
    lambda uptime, when, text: f"{when:%b %d %H:%M:%S} gpu07 kernel: [{uptime:12.6f}] {text}",
    lambda uptime, when, text: f"<6>[{uptime:12.6f}] {text}",
]
_KERNEL_TEXTS = [
    "eth0: renamed from veth{:x}",
    "docker0: port {0}(veth{0:x}) entered forwarding state",
    "usb 1-14: new high-speed USB device number {} using xhci_hcd",
    "systemd[1]: Started Session {} of User root.",
    "audit: type=1400 audit(17950{}.1:9): apparmor=ALLOWED operation=open",
    "perf: interrupt took {} ns, lowering the sampling rate",
    "nvme1n1: p1 p2 p{}",
    "IPv6: ADDRCONF(NETDEV_CHANGE): cali{:x}: becomes ready",
    "nvidia-uvm: Loaded the UVM driver, major device number {}.",
    "TCP: request_sock_TCP: flow {} started",
]


def _clock(step):
    return f"{datetime.fromtimestamp(BOOT_S + step // 20, timezone.utc):%Y-%m-%d %H:%M:%S}"
