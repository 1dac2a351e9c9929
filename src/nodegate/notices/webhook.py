"""`webhook:`: the body `nodegate.notice/1` as JSON; lines after the address are further headers, NAME: VALUE."""

from __future__ import annotations

from nodegate.notices.http import as_json, post
from nodegate.notices.message import Notice
from nodegate.notices.target import Target


def send(target: Target, notice: Notice, limit_s: float) -> None:
    """Send one notice; NotSent if it did not arrive."""
    lines = [line.partition(":") for line in target.rest.splitlines() if line.strip()]
    headers = {name.strip(): value.strip() for name, _, value in lines}
    post(target, target.address, as_json(notice.document()), headers, limit_s)
