"""`feishu:`: a card of a custom robot of Feishu or Lark, signed if a secret comes after the address.

The body may have 20 KB; its time is in seconds and at most an hour off. The signature is odd: time and secret are the
key of a HMAC over nothing. All text of the card is `plain_text`, in which nothing is markup and no person is called.
"""

from __future__ import annotations

import time

from nodegate.notices.http import as_json, fitting, post_json, signature
from nodegate.notices.message import Notice
from nodegate.notices.target import Target

MOST_BYTES = 20_000
_BUSY = frozenset((9499, 11232, 11233))  # asked too often
_LONGEST_TITLE = 200


def send(target: Target, notice: Notice, limit_s: float) -> None:
    """Send one notice; NotSent if it did not arrive."""
    at = str(int(time.time()))
    signed = {"timestamp": at, "sign": signature(f"{at}\n{target.rest}", "")} if target.rest else {}
    colour = "red" if notice.new else "green"
    title = {"tag": "plain_text", "content": notice.title[:_LONGEST_TITLE]}

    def body(text: str) -> bytes:
        shown = {"tag": "div", "text": {"tag": "plain_text", "content": text}}
        card = {"header": {"title": title, "template": colour}, "elements": [shown]}
        return as_json({**signed, "msg_type": "interactive", "card": card})

    raw = fitting(notice.text, MOST_BYTES, body)
    post_json(target, target.address, raw, limit_s, codes=("code", "StatusCode"), busy=_BUSY)
