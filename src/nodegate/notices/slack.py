"""`slack:`: an incoming webhook of Slack, or of what takes the same (Mattermost, Rocket.Chat)."""

from __future__ import annotations

from nodegate.notices.http import as_json, fitting, post
from nodegate.notices.message import Notice
from nodegate.notices.target import Target

MOST_BYTES = 38_000  # Slack cuts a text at 40,000 characters


def send(target: Target, notice: Notice, limit_s: float) -> None:
    """Send one notice; `mrkdwn` false and the three escapes keep a node's text from being markup or a call."""

    def body(text: str) -> bytes:
        plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return as_json({"text": plain, "mrkdwn": False})

    post(target, target.address, fitting(notice.text, MOST_BYTES, body), {}, limit_s)
