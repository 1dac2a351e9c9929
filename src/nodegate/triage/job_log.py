"""One job log, from its first chunk to its last: its errors, how far the training got, its first and last time."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from nodegate.knowledge.kernel_signatures import Hit
from nodegate.knowledge.signatures import find
from nodegate.knowledge.words import UNKNOWN_LINES, Cause, Role, Side
from nodegate.triage import details, held_memory, launchers, place, recognised, scan
from nodegate.triage.clock import Stamp
from nodegate.triage.events import Event, Events, template
from nodegate.triage.grep import Positions
from nodegate.triage.log import Iteration, Log, last_iteration
from nodegate.triage.place import Place
from nodegate.triage.read import text_of
from nodegate.triage.secrets import without_secrets

_NEARBY_BYTES = 1 << 16
_HEAD_BYTES = 1 << 16
_TAIL_BYTES = 1 << 18
_STAMP_CHARACTERS = 150  # of a line in which its own time is
_BLOCK_BYTES = 4096  # of torchrun's report
_MPI_LINES = 8  # of mpirun's
_NCCL_ERROR = "NCCL error"
_REASON_LINES, _REASON_CHARACTERS = 8, 200  # in which NCCL's reason is, below an exception
_FINISHED = "job_finished"
_IDENTITY_BYTES = 64 << 20  # ranks say who they are when they start
_EXCEPTION = "terminated with exception: "
_SHORT_NUMBERS = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]{4,}|[0-9]+\.[0-9]+")
_WHOSE = ("index", "podname", "node", "at_rank")  # a line that differs in one of these, or in its device, is another
_MOST_CACHED = 20_000


class JobLogReader:
    """Reads one log into `events`; fills `log`. `hits` remembers which kinds of line were looked up in all logs.

    `positions`: where lines with triggers are, for a plain file in which grep searches; None: they are searched here.
    """

    def __init__(
        self, log: Log, events: Events, hits: dict[str, Hit | None], *, positions: Positions | None = None
    ) -> None:
        self.log, self.events, self.hits, self.positions = log, events, hits, positions
        self.before = self.earlier = b""  # the chunk before this one, and the one before that
        self.open = False  # an error was seen, and no progress after it
        self.failed_at: Stamp | None = None  # the newest time of the errors since then
        self.failed_sources: set[str] = set()
        self.waiting: dict[tuple[object, ...], str] = {}  # events without a time, and who wrote them

    def read(self, chunks: Iterable[bytes]) -> None:
        """Read the whole log."""
        for chunk in chunks:
            self.feed(chunk)
        self.end()

    def feed(self, chunk: bytes) -> None:
        """Read the next chunk."""
        start = self.log.size_bytes
        if not start:
            head = text_of(chunk[:_HEAD_BYTES])
            self.log.begin(head, "\n".join(line[:_STAMP_CHARACTERS] for line in head.splitlines()))
            self.log.writers.begin(head, self.log.times)
        ranges = None if self.positions is None else self.positions.between(start, start + len(chunk))
        lines = scan.interesting(chunk, ranges)
        if start < _IDENTITY_BYTES:
            self._identities(lines)
        self._goes_on(chunk)
        mark, counted, number = 0, 0, self.log.lines + 1
        for line in lines:
            number += chunk.count(b"\n", counted, line.start)
            counted = line.start
            of_torchrun = launchers.TORCHRUN.search(line.text[:200])
            if of_torchrun or launchers.MPIRUN.search(line.text[:400]):
                self._exits(chunk, line.start, number)
            if of_torchrun:
                continue
            hit, text = self._look_up(line.text)
            if hit is None or details.is_ignored(hit, chunk, line.start, self._place):
                self.log.torn_down |= launchers.ENDS_WORKERS.match(text[:200]) is not None
                continue
            if hit.signature.role is not Role.CONTEXT:
                self._progress(chunk, mark, line.start)
                mark = line.end
            if hit.signature.id == _FINISHED and self._later(
                self.log.times.first(line.text[:300]), self.log.writers.of(self._place(line.text))
            ):
                self.log.episode += self.open
                self.open, self.log.finished = False, True
            self._event(chunk, line, number, hit, text)
        if self.open:
            self._progress(chunk, mark, len(chunk))
        self.log.lines += chunk.count(b"\n")
        self.log.size_bytes += len(chunk)
        self.earlier, self.before = self.before, chunk

    def _identities(self, lines: Sequence[scan.Line]) -> None:
        """Who the ranks are, and where, by the lines in which NCCL says so."""
        for line in (each for each in lines if scan.identifies(each.text)):
            found = self.events.names.see(self._place(line.text))
            details.read_identity(found.text, found.or_else(self.log.place), self.events, line.text)
            if found.node and len(self.log.hosts) < 2:  # more say no more than two
                self.log.hosts.add(found.node)

    def end(self) -> None:
        """Weigh how the log ends."""
        if not self.open:
            self._progress(self.before, 0, len(self.before))
        more = self.earlier[-_TAIL_BYTES:] if len(self.before) < _TAIL_BYTES else b""
        tail = text_of((more + self.before)[-_TAIL_BYTES:])
        self.log.last = self.log.times.last(tail[-_HEAD_BYTES:])
        self.log.writers.end(tail, self.log.times)
        self.before = self.earlier = b""
        most = recognised.LAST_LINES_OF_MANY if len(self.log.writers.by_name) > 1 else recognised.LAST_LINES
        self.log.tail = recognised.Tail(
            self.log.name,
            self.log.lines,
            "\n".join(tail.split("\n")[-most:]),
            self._place,
            self.log.times.first,
            lambda text: self._look_up(text)[0] is not None,
        )
        self.events.hold(self.log.tail)

    def _look_up(self, line: str) -> tuple[Hit | None, str]:
        """What the line is, and its text without prefixes."""
        side, text = Side.USER, line
        kernel = line.find("NVRM: ")
        if kernel >= 0:
            side, text = Side.KERNEL, line[kernel:]
        key = _SHORT_NUMBERS.sub("#", text[:1000])
        if key in self.hits:
            return self.hits[key], text
        stripped = self._place(text).text if side is Side.USER else text
        hit = find(stripped, side)
        if side is Side.USER and (hit is None or hit.signature.id in UNKNOWN_LINES):
            hit = details.of_kernel(text) or hit
        quoted = stripped.partition(_EXCEPTION)[2]
        if quoted and (inner := find(quoted, side)) is not None:
            hit = inner  # the watchdog only quotes it
        if len(self.hits) < _MOST_CACHED and not (hit and (hit.device or any(map(hit.group, _WHOSE)))):
            self.hits[key] = hit
        return hit, text

    def _event(self, chunk: bytes, line: scan.Line, number: int, hit: Hit, text: str) -> None:
        found = self._place(line.text)
        kind = held_memory.told(hit.signature, found.text, chunk, line.start)
        if not found.source and (prefix := scan.before_bar(chunk, line)):
            found = found.or_else(self._place(prefix))
        self.events.names.learn(found)
        if found.rank is not None and len(self.log.ranks) < 100_000:
            self.log.ranks.add(found.rank)
        if found.node and len(self.log.nodes) < 10_000:
            self.log.nodes.add(self.events.names.see(found).node)
        about, ended = Place(), None
        if kind.id.startswith(("k8s_", "ray_", "container_")):
            about, ended = details.described(chunk, line.start, line.end, self.log.times)
            self.events.names.learn(about)
        where = replace(found, text="").or_else(self.log.place).named(hit, found.text).or_else(about)
        details.read_collective(found.text, where, self.events)
        self.events.names.learn(Place(pod=hit.group("podname"), node=hit.group("node")))  # of Kubernetes
        peer = details.peer(found.text)
        address = kind.cause is not Cause.ENVIRONMENT and ("." in hit.device or ":" in hit.device)
        device = hit.device.lower() if address else hit.device
        key = (self.log.name, self.log.episode, kind.id, where, device, peer, template(found.text))
        own = self.log.times.first(line.text[:300]) or ended
        source = self.log.writers.of(found)
        if kind.role is not Role.CONTEXT:
            self._opens(own, source)
        if self.events.known(key):
            return
        after, until = (None, None) if own else self._between(chunk, line, source)
        if own is None and kind.role is not Role.CONTEXT:
            self._opens(after, source)
        if own is None and until is None:
            self.waiting[key] = source
        said = found.text
        if _NCCL_ERROR in text:  # what NCCL says was the reason, a few lines below an exception
            below = text_of(chunk[line.end : line.end + _BLOCK_BYTES]).splitlines()[1:_REASON_LINES]
            said += details.last_error(self._place(each[:_REASON_CHARACTERS]).text for each in below)
        self.events.add(
            key,
            Event(
                kind,
                details.shown(said),
                self.log.name,
                number,
                where,
                stamp=own,
                after=after,
                until=until,
                ran_s=details.ran_s(text),
                device=device,
                peer=peer,
                episode=self.log.episode,
                clock_s=None if own else place.clock_of(line.text, stern=self.log.writers.stern),
                around=details.around(chunk, line.start, line.end, number) if self.events.shows(kind) else (),
                held=held_memory.held(found.text) if kind.id.startswith(held_memory.OUT_OF_MEMORY) else None,
            ),
        )

    def _opens(self, when: Stamp | None, source: str) -> None:
        """An error: the training has not continued until an iteration is later than this."""
        if not self.open:
            self.failed_at, self.failed_sources = None, set()
        self.open, self.log.finished = True, False
        self.failed_sources.add(source)
        if when and (self.failed_at is None or when.epoch_s > self.failed_at.epoch_s):
            self.failed_at = when

    def _exits(self, chunk: bytes, start: int, number: int) -> None:
        """The block in which a launcher says which worker failed first: torchrun of its node, mpirun of all."""
        block = text_of(chunk[start : start + _BLOCK_BYTES])
        self._progress(chunk, 0, start)
        mpirun = launchers.of_mpirun(" ".join(self._place(line).text for line in block.splitlines()[:_MPI_LINES]))
        for ended, stamp, code, said in (*launchers.of_torchrun(block, self.log.times), *mpirun):
            where = self.events.names.see(ended).or_else(Place(node=self.log.place.node))
            self.events.names.learn(where)
            hit = find(code, Side.USER)
            key = (self.log.name, "exit", where, code)
            if hit is None or self.events.known(key):
                continue
            about = hit.signature, without_secrets(said), self.log.name, number, where
            self.events.add(key, Event(*about, stamp=stamp, episode=self.log.episode))

    def _place(self, line: str) -> Place:
        return place.of_line(line, stern=self.log.writers.stern)

    def _between(self, chunk: bytes, line: scan.Line, source: str) -> tuple[Stamp | None, Stamp | None]:
        """The times before and after a line without one, of lines of the same writer; None where there is none."""
        behind = chunk[max(0, line.start - _NEARBY_BYTES) : line.start]
        before = self._nearest(reversed(behind.splitlines()), source)
        if before is None and line.start < _NEARBY_BYTES:
            before = self._nearest(reversed(self.before[-_NEARBY_BYTES:].splitlines()), source)
        if before is None:
            writer = self.log.writers.by_name.get(source)
            before = writer.first if writer and line.start > _NEARBY_BYTES else None
        return before, self._nearest(chunk[line.end : line.end + _NEARBY_BYTES].splitlines(), source)

    def _nearest(self, lines: Iterable[bytes], source: str) -> Stamp | None:
        """The first time in lines of this writer; other writers' lines may name it."""
        writers = self.log.writers
        mark = b"" if writers.in_turn else source.encode()
        for line in lines:
            text = text_of(line[:300]) if mark in line else ""
            stamp = self.log.times.first(text) if text else None
            who = writers.of(self._place(text)) if source and (stamp or writers.in_turn) else ""
            if writers.in_turn and who not in ("", source):
                return None  # the lines of another rank begin
            if stamp and (who == source or writers.in_turn):
                return stamp
        return None

    def _goes_on(self, chunk: bytes) -> None:
        """The first times of a new chunk are the latest for what the chunk before left open."""
        for key, source in list(self.waiting.items()):
            if stamp := self._nearest(chunk[:_NEARBY_BYTES].splitlines(), source):
                self.events.change(key, until=stamp)
                del self.waiting[key]

    def _got_over(self, source: str) -> None:
        """The training continued, as this writer shows: after all errors but those that nothing gives a time.

        One without a time, of another writer that has printed no time since, stays open; lines in the order of time say
        when it was.
        """
        self.log.episode += 1
        self.open = False
        carries = not self.log.writers.mixed and bool(source or not self.log.writers.in_turn)
        for key, who in self.waiting.items() if carries else ():
            if who not in ("", source):
                self.events.change(key, episode=self.log.episode)

    def _later(self, when: Stamp | None, source: str) -> bool:
        """Whether this was printed after the errors that are open: by the clock, else by its place in the log."""
        if not self.open:
            return True
        if when and self.failed_at and when.zoned == self.failed_at.zoned:
            return when.epoch_s >= self.failed_at.epoch_s
        return self.log.writers.mixed or not source or self.failed_sources <= {source, ""}

    def _progress(self, chunk: bytes, start: int, end: int) -> None:
        found = self._iteration(chunk, start, end)
        if found is None and start == 0 and not self.open:
            found = self._iteration(self.before, 0, len(self.before))
        known = self.log.iteration
        if found is None or (known is not None and found.number == known.number):
            return
        source = self.log.writers.of(found.place)
        if self.open and not self._later(found.stamp, source):
            return
        if known is not None and known.stamp and found.stamp and found.stamp.epoch_s < known.stamp.epoch_s:
            return  # of another log in this one
        if self.open:
            self._got_over(source)
        self.log.iteration = found

    def _iteration(self, chunk: bytes, start: int, end: int) -> Iteration | None:
        return last_iteration(chunk, start, end, self.log.times, stern=self.log.writers.stern)
