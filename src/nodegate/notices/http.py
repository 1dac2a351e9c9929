"""A notice by HTTP: one POST of JSON, and what the server says of it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from nodegate.files.web import opener
from nodegate.notices.target import Target
from nodegate.text import visible

MOST_ANSWER_BYTES = 1 << 16
LONGEST_PAUSE_S = 60.0  # a server that asks for more gets the notice with the next one
_LATER = (408, 425, 429, 500, 502, 503, 504)
_CUT, _LAST_LINES = "...", 4


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
        again = said.code in _LATER
        raise target.failed(
            f"the server answers {said.code}", again=again, after_s=_pause(said.headers.get("Retry-After"))
        ) from None
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


def _pause(said: str | None) -> float:
    """Seconds of a Retry-After; a date counts as the longest pause."""
    if not said:
        return 0.0
    return min(float(said), LONGEST_PAUSE_S) if said.isascii() and said.isdecimal() else LONGEST_PAUSE_S
