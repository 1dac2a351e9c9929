"""Asks a server that speaks Prometheus' HTTP API, keeps its answers as evidence, and reads such answers again."""

import hashlib
import http.client
import shlex
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from nodegate.errors import UsageError
from nodegate.files.bounded import read_given, read_whole
from nodegate.files.web import opener
from nodegate.text import visible

LIMIT_S = 50.0
FIRST_S = 10.0  # for time(), which costs a server nothing
LAST_S = 1e11
_HINTS = {
    301: "give the address to which it points",
    302: "a proxy asks for a log-in: give --token-file",
    **dict.fromkeys((401, 403), "give --token-file or --header-file"),
    404: "the address needs the path of the API's parent, for example /prometheus",
}
MOST_BYTES = 256 << 20  # of one answer: 10,000 GPUs at 60 moments are 30 MB


class Row(msgspec.Struct):
    """A series of an answer: `value` of an instant query, [seconds, text]; `values` of a range, a JSON list of such.

    They stay text until numpy reads all of an answer at once: a million tuples took a second.
    """

    metric: dict[str, str] = {}
    value: tuple[float, str] | None = None
    values: msgspec.Raw = msgspec.Raw(b"")


class _Data(msgspec.Struct):
    resultType: str = ""  # noqa: N815 - Prometheus' word
    result: msgspec.Raw = msgspec.Raw(b"[]")


class _Envelope(msgspec.Struct):
    status: str
    data: _Data = msgspec.field(default_factory=_Data)
    error: str = ""
    warnings: list[str] = []


@dataclass(frozen=True)
class Reply:
    """An answer of the API: series, or one number; `warnings` may mean that a part is missing."""

    rows: list[Row] = field(default_factory=list)
    scalar: float | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Query:
    """One request: its name in the evidence, and the parameters of the API. A range query has start, end and step."""

    name: str
    expression: str
    at: Mapping[str, str]

    @property
    def path(self) -> str:
        """The path below the server's address."""
        return "/api/v1/query_range" if "step" in self.at else "/api/v1/query"

    @property
    def body(self) -> str:
        """The form data: a POST has no limit for long lists of nodes."""
        return urllib.parse.urlencode({"query": self.expression, **self.at})

    @property
    def file(self) -> str:
        """The name of the answer's file: it says which request it answers."""
        return f"{self.name}-{hashlib.sha256(f'{self.path}?{self.body}'.encode()).hexdigest()[:16]}.json"


TIME = Query("time", "time()", {})


@dataclass(frozen=True)
class Access:
    """How a server is reached: address, files of secrets, of further headers and of a certificate authority."""

    url: str
    token_file: Path | None = None
    header_file: Path | None = None
    ca_file: Path | None = None

    def __post_init__(self) -> None:
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError("the server is not an http or https address", hint="for example http://prom:9090")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise UsageError(
                "the server's address has a user, password or token in it, which others see", hint="give --token-file"
            )

    def headers(self) -> dict[str, str]:
        """The headers of a request; the files are read each time, because tokens are renewed."""
        found = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        for line in _secret(self.header_file).splitlines() if self.header_file else ():
            name, colon, value = line.partition(":")
            if line.strip() and not colon:
                raise UsageError("a line is not NAME: VALUE", file=str(self.header_file))
            found |= {name.strip(): value.strip()} if line.strip() else {}
        if self.token_file:
            found["Authorization"] = f"Bearer {_secret(self.token_file).strip()}"
        return found


@dataclass
class Source:
    """What answers a request: a server, or a folder of answers (of an earlier look, or fetched by --print-queries)."""

    place: Access | Path
    keep: Callable[[str, bytes], None] | None = None  # gets each answer as it came, with its name

    def ask(self, query: Query) -> Reply:
        """The answer to a request.

        Raises:
            UsageError: there is none, or it is something else.
        """
        if isinstance(self.place, Access):
            raw, whose = _of_server(self.place, query), "the server"
        else:
            whose = str(self.place / query.file)
            try:
                raw = read_whole(self.place / query.file, MOST_BYTES)
            except OSError as said:
                hint = "give the same job, --at and --since as then, or fetch it with --print-queries"
                raise UsageError(f"no answer to the query {query.name} is there", file=whose, hint=hint) from said
        reply = _read(raw, whose)
        if self.keep is not None:
            self.keep(query.file, raw)
        return reply


def _of_server(access: Access, query: Query) -> bytes:
    """The answer of a server; its clock is asked first, and has less time."""
    address = access.url.rstrip("/") + query.path
    request = urllib.request.Request(address, query.body.encode(), access.headers())  # noqa: S310 - checked
    try:
        with opener(access.ca_file).open(request, timeout=FIRST_S if query == TIME else LIMIT_S) as answer:
            raw: bytes = answer.read(MOST_BYTES + 1)
    except urllib.error.HTTPError as said:
        raw = said.read(1 << 16)
        if not raw.startswith(b"{"):
            why, hint = visible(str(said.reason), most=80), _HINTS.get(said.code, "look at the server's log")
            raise UsageError(f"the server answers {said.code} {why}", hint=hint) from said
    except (OSError, ValueError, http.client.HTTPException) as said:
        why = visible(str(getattr(said, "reason", said)), most=200)
        raise UsageError(f"the Prometheus server does not answer: {why}", hint="is the address right?") from said
    if len(raw) > MOST_BYTES:
        raise UsageError(f"an answer has more than {MOST_BYTES >> 20} MiB", hint="ask for fewer nodes, or --since")
    return raw


def server_time(source: Source) -> int:
    """The server's time, UTC seconds: the clocks of others do not count.

    Raises:
        UsageError: it does not tell.
    """
    told = source.ask(TIME).scalar
    if told is None or not 0 < told < LAST_S:
        raise UsageError("the server does not tell its time", hint="give --at")
    return int(told)


def curl(access: Access, query: Query) -> str:
    """The request as a shell line that writes its answer into the current folder; secrets stay in their files."""
    words = ["curl", "-sS", "-o", query.file]
    words += ["--cacert", str(access.ca_file)] if access.ca_file else []
    words += ["-H", f"@{access.header_file}"] if access.header_file else []
    line = " ".join(shlex.quote(word) for word in words)
    if access.token_file:
        line += f' -H "Authorization: Bearer $(cat {shlex.quote(str(access.token_file))})"'
    for name, value in {"query": query.expression, **query.at}.items():
        line += f" --data-urlencode {shlex.quote(f'{name}={value}')}"
    return f"{line} {shlex.quote(access.url.rstrip('/') + query.path)}"


def _secret(path: Path) -> str:
    try:
        return read_given(path, 1 << 16).decode()
    except (OSError, UnicodeDecodeError) as said:
        raise UsageError(f"cannot be read: {said}", file=str(path)) from said


def _read(raw: bytes, whose: str) -> Reply:
    try:
        envelope = msgspec.json.decode(raw, type=_Envelope)
        if envelope.status != "success":
            raise UsageError(f"the query was refused: {visible(envelope.error, most=300)}", file=whose)
        warnings = tuple(visible(each, most=200) for each in envelope.warnings)
        if envelope.data.resultType == "scalar":
            return Reply(scalar=float(msgspec.json.decode(envelope.data.result, type=tuple[float, str])[1]))
        return Reply(msgspec.json.decode(envelope.data.result, type=list[Row]), warnings=warnings)
    except (ValueError, UnicodeDecodeError) as said:  # msgspec's errors are ValueErrors
        page = " (a page of HTML: a log-in?)" if raw.lstrip()[:1] == b"<" else ""
        what = visible(str(said), most=120)
        raise UsageError(f"this is not an answer of Prometheus{page}: {what}", file=whose) from said
