"""`dingtalk:`: Markdown of a custom robot of DingTalk, signed if a secret comes after the address.

The body may have 20,000 bytes; time (in milliseconds) and signature are in the address. What the text has of Markdown
and HTML is escaped: it may come from a node.
"""

from __future__ import annotations

import re
import time
import urllib.parse

from nodegate.notices.http import as_json, fitting, post_json, signature
from nodegate.notices.message import Notice
from nodegate.notices.target import Target

MOST_BYTES = 20_000
_BUSY = frozenset((-1, 130101, 410100))  # the system is busy, asked too often
_LONGEST_TITLE = 100
_MARKUP = re.compile(r"([\\`*_\[\]~|!]|^ *[#>+]|^-(?! )|^ *[0-9]+[.)])", re.MULTILINE)


def send(target: Target, notice: Notice, limit_s: float) -> None:
    """Send one notice; NotSent if it did not arrive."""
    address = target.address
    if target.rest:
        at = str(int(time.time() * 1000))
        sign = urllib.parse.quote_plus(signature(target.rest, f"{at}\n{target.rest}"))
        address += f"{'&' if '?' in address else '?'}timestamp={at}&sign={sign}"

    def body(text: str) -> bytes:
        shown = {"title": notice.title[:_LONGEST_TITLE], "text": escaped(text)}
        return as_json({"msgtype": "markdown", "markdown": shown})

    raw = fitting(notice.text, MOST_BYTES, body)
    post_json(target, address, raw, limit_s, codes=("errcode",), busy=_BUSY)


def escaped(text: str) -> str:
    """Text as Markdown that shows it as it is, line by line."""
    plain = text.replace("&", "&amp;").replace("<", "&lt;")
    return "  \n".join(_MARKUP.sub(_with_backslash, line) for line in plain.split("\n"))


def _with_backslash(found: re.Match[str]) -> str:
    return f"{found[0][:-1]}\\{found[0][-1]}"
