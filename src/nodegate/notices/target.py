"""Where a notice goes: `scheme:URL`, `scheme:@FILE`, `scheme:$NAME`, or the command line of a program."""

import argparse
import hashlib
import os
import re
import shlex
import stat
import sys
import urllib.parse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec

from nodegate.errors import UsageError
from nodegate.files.bounded import open_regular

PROGRAM, MAILTO, APPRISE = "program", "mailto", "apprise"
WEB = ("feishu", "dingtalk", "slack", "webhook")  # by HTTP; each is a function of http.py
SCHEMES = (*WEB, MAILTO, PROGRAM, APPRISE)
MOST_BYTES = 16 << 10  # of an address with its secrets
_SHORTEST = 8  # letters of a piece of an address that may be a secret
_LIKE_AN_ADDRESS = re.compile(r"([A-Za-z]{2,20}):(?:https?://|@|\$)")
_MAIL = re.compile(r"[^\s@,<>;:]{1,64}@[^\s@,<>;:]{1,255}")
_HINT = "for example feishu:@/etc/nodegate/feishu, a file of mode 0600 with the address"
_TAKEN: dict[str, str] = {}  # secrets that were variables of the environment
FORMS = "feishu:, dingtalk:, slack:, webhook:, mailto: or apprise: and an address, @FILE or $NAME; or a program"


class NotSent(Exception):  # noqa: N818 - reads as the sentence that it raises
    """A notice did not arrive, with the reason in one line.

    `again`: another attempt may help, after `after_s` seconds at the earliest. `keep`: it is to be sent with the next.
    """

    def __init__(self, why: str, *, again: bool = False, after_s: float = 0.0, keep: bool = True) -> None:
        super().__init__(why)
        self.again, self.after_s, self.keep = again, after_s, keep


@dataclass(frozen=True)
class Target:
    """One target. `name` has no secret and is what files and messages call it.

    `address` is a URL, mail addresses or a command line; `rest` is what comes after it: the secret of a signature,
    headers, or the mail server. `warning` is for the user: a secret that others can see.
    """

    scheme: str
    name: str
    address: str = field(repr=False)
    rest: str = field(default="", repr=False)
    warning: str = ""

    def failed(self, why: str, *, again: bool = False, after_s: float = 0.0) -> NotSent:
        """What is raised where a notice did not arrive."""
        return NotSent(f"notice was not sent: {self.name}: {why}", again=again, after_s=after_s)

    def without_secrets(self, text: str) -> str:
        """A text, of a server for example, without what is secret of this target."""
        if self.scheme in (PROGRAM, MAILTO) and not self.rest:
            return text
        pieces = re.split(r"[/?&=:@#\s]+", f"{self.address} {self.rest}")
        words = {self.address, *(each for each in pieces if len(each) >= _SHORTEST and not each.isalpha())}
        words |= {each for each in (*self.rest.split(), *re.findall(r"//([^/@]*)@", self.address)) if each}
        for word in sorted(words, key=len, reverse=True):
            text = text.replace(word, "***") if word not in self.name else text
        return text


def parse(text: str) -> Target:
    """The target that a user names; a file or variable of it is read now.

    Raises:
        UsageError: it cannot be used; the message has no secret.
    """
    scheme, colon, given = text.partition(":")
    if not colon or scheme not in SCHEMES:
        if found := _LIKE_AN_ADDRESS.match(text):  # as a program it would be missed only when a notice is lost
            from nodegate.files.strict_yaml import did_you_mean  # noqa: PLC0415 - yaml, only for a mistake

            raise UsageError(f"--notice: no such kind of target: {found[1]}", hint=did_you_mean(found[1], SCHEMES))
        return _program(text)
    if scheme == PROGRAM:
        return _program(given)
    content, is_shown = _content(scheme, given.strip())
    address, _, rest = (each.strip() for each in content.partition("\n" if "\n" in content else " "))
    if not address.isascii() or not address.isprintable() or " " in address or not address:
        raise _wrong(scheme, "its address is empty or has characters that none has")
    name = {MAILTO: _of_mail, APPRISE: _of_apprise}.get(scheme, _of_web)(scheme, address, rest)
    warning = f"--notice {scheme}: others see secrets in arguments; write {scheme}:@FILE (mode 0600) or {scheme}:$NAME"
    is_secret = is_shown and (scheme != MAILTO or "@" in rest)
    return Target(scheme, name, address, rest, warning if is_secret else "")


def parse_all(texts: Iterable[str]) -> tuple[Target, ...]:
    """The targets that a user names, each once.

    Raises:
        UsageError: as `parse`.
    """
    return tuple({each.name: each for each in map(parse, texts)}.values())


def hidden(arguments: Sequence[str]) -> list[str]:
    """A command line with what is secret in its `--notice` left out, for the files of a run."""
    found = list(arguments)
    for place, word in enumerate(found):
        option, equals, value = word.partition("=")
        if option == "--notice" and equals:
            found[place] = f"--notice={_hidden(value)}"
        elif place and found[place - 1] == "--notice":
            found[place] = _hidden(word)
    return found


def _hidden(text: str) -> str:
    scheme, colon, given = text.partition(":")
    if not colon or scheme not in SCHEMES or scheme == PROGRAM:
        words = text.split(maxsplit=1)
        return words[0] + (" ..." if len(words) > 1 else "") if words else text
    return text if given.lstrip()[:1] in ("@", "$") else f"{scheme}:..."


def _wrong(scheme: str, what: str, hint: str = "", file: str = "") -> UsageError:
    return UsageError(f"--notice {scheme}: {what}", file=file, hint=hint or _HINT)


def _content(scheme: str, given: str) -> tuple[str, bool]:
    """Address and secrets, and whether they are in the arguments."""
    if given.startswith("@"):
        return _of_file(scheme, given[1:]), False
    if given.startswith("$"):
        name = given[1:].strip("{}")
        if name in os.environ:  # what is started from now on does not inherit it
            _TAKEN[name] = os.environ.pop(name).strip()
        if not (value := _TAKEN.get(name)):
            raise _wrong(f"{scheme}:{given}", "the environment has no such variable")
        return value, False
    return given, True


def _of_file(scheme: str, file: str) -> str:
    try:
        with open_regular(file) as opened:
            status, raw = os.fstat(opened.fileno()), opened.read(MOST_BYTES + 1)
        text = raw.decode().strip()
    except (OSError, UnicodeDecodeError) as said:
        why = getattr(said, "strerror", "") or "it is not text"
        raise _wrong(scheme, f"cannot be read: {why}", file=file) from None
    if stat.S_IMODE(status.st_mode) & 0o077 or status.st_uid not in (0, os.geteuid()):
        raise _wrong(scheme, "other users can read it", "chmod 600, and be its owner", file)
    if len(raw) > MOST_BYTES:
        raise _wrong(scheme, f"is larger than {MOST_BYTES >> 10} KiB", file=file)
    return text


def _host(address: str, *schemes: str) -> str:
    """The host of a URL; empty of what is not a URL of these schemes."""
    try:
        parts = urllib.parse.urlsplit(address)
        is_one = parts.scheme in schemes and parts.port != 0
    except ValueError:
        return ""
    return parts.hostname or "" if is_one else ""


def _of_web(scheme: str, address: str, rest: str) -> str:
    host = _host(address, "http", "https")
    if not host:
        raise _wrong(scheme, "its address does not begin with http:// or https://")
    if scheme in ("feishu", "dingtalk") and len(rest.split()) > 1:
        raise _wrong(scheme, "after the address comes one secret, and no more")
    if scheme == "webhook" and not all(":" in each and each.isascii() for each in rest.splitlines()):
        raise _wrong(scheme, "a line after the address is not NAME: VALUE")
    return f"{scheme}:{host}#{_mark(address)}"


def _of_mail(scheme: str, address: str, rest: str) -> str:
    if not all(_MAIL.fullmatch(each) for each in address.split(",")):
        raise _wrong(scheme, "not a list of mail addresses", "for example mailto:gpu-team@example.org")
    if rest and not _host(rest, "smtp", "smtps"):
        hint = "for example mailto:gpu-team@example.org smtp://mail.example.org:25"
        raise _wrong(scheme, "after the addresses comes not a mail server", hint)
    return f"{scheme}:{address}"


def _of_apprise(scheme: str, address: str, _: str) -> str:
    service, found, _ = address.partition("://")
    if not found:
        raise _wrong(scheme, "not an address of Apprise", "for example apprise:@/etc/nodegate/teams")
    if find_spec("apprise") is None:
        raise _wrong(scheme, "needs Apprise", "pip install 'nodegate[apprise]'")
    return f"{scheme}:{service}#{_mark(address)}"


def _program(command: str) -> Target:
    """The program and its arguments; no shell interprets them."""
    try:
        words = shlex.split(command)
    except ValueError as said:
        raise UsageError(f"--notice cannot be split into words: {said}", hint="quote it like a command line") from said
    if not words:
        hint = "for example --notice '/opt/site/page-oncall gpu-team'"
        raise UsageError("--notice does not name a program", hint=hint)
    return Target(PROGRAM, words[0] + (f"#{_mark(command)}" if len(words) > 1 else ""), command)


def _mark(address: str) -> str:
    """Makes two addresses of one host different: a few letters of a hash, over none of its passwords."""
    public = re.sub(r"//[^/@]*@", "//", address)
    return hashlib.sha256(public.encode()).hexdigest()[:8]


def add_notice(command: argparse.ArgumentParser, what: str, option: str = "--notice") -> None:
    """The option. `what` says what a target gets."""
    text = f"{what}; repeatable: {FORMS}"
    command.add_argument(option, dest="notice", action="append", default=[], metavar="TARGET", help=text)


def targets_of(texts: Iterable[str]) -> tuple[Target, ...]:
    """The targets that a command was given; what others can see of them is said on stderr.

    Raises:
        UsageError: one of them cannot be used.
    """
    found = parse_all(texts)
    sys.stderr.writelines(f"nodegate: {each.warning}\n" for each in found if each.warning)
    return found
