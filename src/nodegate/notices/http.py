"""Notices by HTTP, a function a scheme: one POST of JSON, and what the server says of it.

Robots of Feishu (or Lark) and DingTalk sign their messages if a secret comes after the address; the time in it may be
an hour off. What a text has of markup is escaped, or nothing is markup: it may come from a node.
"""

import base64
import hashlib
import hmac
import http.client
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from nodegate.files.web import opener
from nodegate.notices.message import Notice
from nodegate.notices.target import Target
from nodegate.text import visible

MOST_ANSWER_BYTES = 1 << 16
LONGEST_PAUSE_S = 60.0  # a server that asks for more gets the notice with the next one
_LATER = (408, 425, 429, 500, 502, 503, 504)
_CUT, _LAST_LINES = "...", 4
MOST_BYTES = 20_000  # of a body for Feishu and DingTalk
MOST_FOR_SLACK = 38_000  # it cuts a text at 40,000 characters
_FEISHU_BUSY = frozenset((9499, 11232, 11233))  # asked too often
_DINGTALK_BUSY = frozenset((-1, 130101, 410100))  # the system is busy, asked too often
_MARKUP = re.compile(r"([\\`*_\[\]~|!]|^ *[#>+]|^-(?! )|^ *[0-9]+[.)])", re.MULTILINE)


def post(target: Target, address: str, body: bytes, headers: Mapping[str, str], limit_s: float) -> bytes:
    """The answer of a server that took the notice; NotSent if it did not."""
    parts = urllib.parse.urlsplit(address)
    login, _, host = parts.netloc.rpartition("@")
    all_headers = {"Content-Type": "application/json; charset=utf-8", "User-Agent": "nodegate", **headers}
    if login:
        all_headers["Authorization"] = f"Basic {base64.b64encode(urllib.parse.unquote(login).encode()).decode()}"
    url = urllib.parse.urlunsplit(parts._replace(netloc=host, fragment=""))
    try:
        request = urllib.request.Request(url, body, all_headers, method="POST")  # noqa: S310 - http or https: target.py
        with opener().open(request, timeout=limit_s) as answer:
            raw: bytes = answer.read(MOST_ANSWER_BYTES)
    except urllib.error.HTTPError as said:
        said.close()
        after = said.headers.get("Retry-After") or "0"  # a date counts as the longest pause
        pause = min(float(after), LONGEST_PAUSE_S) if after.isascii() and after.isdecimal() else LONGEST_PAUSE_S
        raise target.failed(f"the server answers {said.code}", again=said.code in _LATER, after_s=pause) from None
    except TimeoutError:  # it was sent, and may have arrived: not at once again
        raise target.failed(f"no answer within {limit_s:.0f} s") from None
    except OSError as said:
        raise target.failed(str(getattr(said, "reason", said)), again=True) from None
    except (ValueError, http.client.HTTPException) as said:  # its text may have the address
        raise target.failed(f"not an answer of a web server ({type(said).__name__})", again=True) from None
    return raw


def post_json(
    target: Target, address: str, body: bytes, limit_s: float, *, codes: tuple[str, ...], busy: frozenset[int]
) -> None:
    """Post to a chat robot, which answers 200 in any case and says in JSON whether it took the message.

    `codes` are the names under which the answer may have its code, 0 is good, `busy` are those of one that is asked too
    often. NotSent if it did not take it.
    """
    raw = post(target, address, body, {}, limit_s)
    try:
        said = json.loads(raw)
    except (ValueError, RecursionError):
        said = None
    code = next((said[name] for name in codes if name in said), None) if isinstance(said, dict) else None
    if not isinstance(code, int) or isinstance(code, bool):
        raise target.failed("what answers is not the robot: a page of a proxy?", again=True)
    if code:
        words = visible(str(said.get("errmsg") or said.get("msg") or ""), most=120)
        raise target.failed(f"the robot answers {code} {words}".rstrip(), again=code in busy)


def as_json(value: Mapping[str, Any]) -> bytes:
    """JSON in UTF-8, Chinese as it is: limits are in bytes."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")


def fitting(text: str, most_bytes: int, body: Callable[[str], bytes]) -> bytes:
    """The body of as much of the text as a target takes; lines are left out above the last few, with a mark."""
    raw, lines = body(text), text.split("\n")
    last = lines[-_LAST_LINES:] if len(lines) > 2 * _LAST_LINES else []
    while len(raw) > most_bytes and len(lines) > len(last) + 1:
        lines = lines[: -len(last) - 1] + last if last else lines[:-1]
        kept = [*lines[: len(lines) - len(last)], _CUT, *last]
        raw = body("\n".join(kept))
    return raw


def signature(key: str, text: str) -> str:
    """HMAC-SHA256 in base64."""
    return base64.b64encode(hmac.new(key.encode(), text.encode(), hashlib.sha256).digest()).decode()


def webhook(target: Target, notice: Notice, limit_s: float) -> None:
    """The body `nodegate.notice/1`; lines after the address are further headers, NAME: VALUE."""
    lines = [line.partition(":") for line in target.rest.splitlines() if line.strip()]
    headers = {name.strip(): value.strip() for name, _, value in lines}
    post(target, target.address, as_json(notice.document()), headers, limit_s)


def slack(target: Target, notice: Notice, limit_s: float) -> None:
    """An incoming webhook of Slack, or of what takes the same (Mattermost, Rocket.Chat).

    `mrkdwn` false and the three escapes keep a node's text from being markup or a call.
    """

    def body(text: str) -> bytes:
        plain = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return as_json({"text": plain, "mrkdwn": False})

    post(target, target.address, fitting(notice.text, MOST_FOR_SLACK, body), {}, limit_s)


def feishu(target: Target, notice: Notice, limit_s: float) -> None:
    """A card. The signature is odd: time (in seconds) and secret are the key of a HMAC over nothing.

    All text of the card is `plain_text`, in which nothing is markup and no person is called.
    """
    at = str(int(time.time()))
    signed = {"timestamp": at, "sign": signature(f"{at}\n{target.rest}", "")} if target.rest else {}
    colour = "red" if notice.new else "green"
    title = {"tag": "plain_text", "content": notice.title[:200]}

    def body(text: str) -> bytes:
        shown = {"tag": "div", "text": {"tag": "plain_text", "content": text}}
        card = {"header": {"title": title, "template": colour}, "elements": [shown]}
        return as_json({**signed, "msg_type": "interactive", "card": card})

    raw = fitting(notice.text, MOST_BYTES, body)
    post_json(target, target.address, raw, limit_s, codes=("code", "StatusCode"), busy=_FEISHU_BUSY)


def dingtalk(target: Target, notice: Notice, limit_s: float) -> None:
    """Markdown, in which the text is shown as it is; time (in milliseconds) and signature are in the address."""
    address = target.address
    if target.rest:
        at = str(int(time.time() * 1000))
        sign = urllib.parse.quote_plus(signature(target.rest, f"{at}\n{target.rest}"))
        address += f"{'&' if '?' in address else '?'}timestamp={at}&sign={sign}"

    def body(text: str) -> bytes:
        plain = text.replace("&", "&amp;").replace("<", "&lt;").split("\n")
        escaped = (_MARKUP.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", line) for line in plain)
        return as_json({"msgtype": "markdown", "markdown": {"title": notice.title[:100], "text": "  \n".join(escaped)}})

    post_json(target, address, fitting(notice.text, MOST_BYTES, body), limit_s, codes=("errcode",), busy=_DINGTALK_BUSY)
