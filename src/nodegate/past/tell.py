"""What no run sees and a person notes in the record: a repair, or that nodes are accepted again as they are."""

import getpass
import os
import time
from collections.abc import Iterable
from pathlib import Path

from nodegate.errors import UsageError
from nodegate.past import database
from nodegate.past.event import ACCEPT_AGAIN, Event
from nodegate.past.events import FILE, append, keep
from nodegate.past.questions import key_of_part, whom
from nodegate.text import visible

MOST_CHARACTERS = 1000


def tell(record: Path, kind: str, names: Iterable[str], text: str) -> list[Event]:
    """Note something of nodes, or of parts by their serial numbers, now: in events.jsonl, then in the record.

    Raises:
        UsageError: the record knows one of them not, the text is empty, or it cannot be written.
    """
    said = visible(" ".join(text.split()))
    if not said or len(said) > MOST_CHARACTERS:
        raise UsageError("say in a few words what was done", hint='such as "power cap of 600 W"')
    if not record.exists():
        raise UsageError("there is no record yet", file=str(record), hint="the first run that ends makes it")
    with database.reading(record) as base:
        meant = [whom(base, each) for each in names]
        if kind == ACCEPT_AGAIN and (odd := [who.name for who in meant if not who.is_node]):
            raise UsageError(f"{odd[0]} is a part: only nodes are accepted again", hint="name its node")
        now, source = time.time(), _user()
        found = [Event(now, kind, who.node, key_of_part(base, who.machine), source, said) for who in meant]
    append(record, found)
    try:
        with database.writing(record) as base:
            keep(base, found)
    except UsageError as broken:
        hint = f"it is noted in {FILE}: nodegate record rebuild brings it into the record"
        raise UsageError(broken.message, file=broken.file, hint=hint) from broken
    return found


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
