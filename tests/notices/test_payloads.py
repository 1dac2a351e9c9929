"""What each target gets, word for word, from servers that check as theirs do.

To accept others read the difference, then write them with NODEGATE_WRITE_GOLDEN=1.
"""

import email
import email.policy
import json
import os
import re
import sys
from functools import cache
from pathlib import Path

import pytest
from support.notice_runs import report, told
from support.notice_servers import SECRET, Mails, Server, dingtalk, feishu, running, serving
from support.schemas import read_output

from nodegate.notices.target import parse

GOLDEN = Path(__file__).parents[1] / "golden" / "notices"
ROBOTS = {"feishu": feishu, "dingtalk": dingtalk}
LIMITS = {"feishu": 20_000, "dingtalk": 20_000, "slack": 38_000}
WEB = ("feishu", "dingtalk", "slack", "webhook")
RUN = {"gpu001": "xid", "gpu002": "slow", "gpu003": "slow", "gpu004": "hostile", "gpu005": "good", "gpu006": "waived"}


def same(name, said, folder):
    said = said.replace(str(folder), "/srv/reports")
    file = GOLDEN / name
    if os.environ.get("NODEGATE_WRITE_GOLDEN"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(said, "utf-8")
    assert said == file.read_text("utf-8")


@cache
def many_faults():
    return report(**{f"gpu{number:04}": ("long", "xid")[number % 9 == 0] for number in range(1, 101)})


@pytest.fixture
def site(tmp_path_factory):
    return tmp_path_factory.mktemp("site")  # a name without markup


@pytest.fixture
def server(request):
    with serving(Server(ROBOTS.get(request.param, Server().usual))) as found:
        yield found


def secret(scheme):
    return {"webhook": f"\nAuthorization: Bearer {SECRET}", "slack": ""}.get(scheme, f" {SECRET}")


def as_golden(got):
    """A request with what changes by the clock and the port left out; the server has checked it."""
    path = re.sub(r"timestamp=\d{13}&sign=[\w%]+", "timestamp=MILLISECONDS&sign=SIGNATURE", got.path)
    value = got.json
    if "schema" in value:
        read_output(json.dumps(value))
    value |= {key: key.upper() for key in ("timestamp", "sign") if key in value}
    kept = {name: got.headers[name] for name in ("Content-Type", "Authorization") if name in got.headers}
    return f"POST {path}\n{kept}\n{json.dumps(value, ensure_ascii=False, indent=1)}\n"


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(("server", "scheme"), [(name, name) for name in WEB], indirect=["server"])
def test_what_is_posted(server, scheme, lang, site):
    target = parse(f"{scheme}:{server.url}{secret(scheme)}")
    assert told(site, [target], report(**RUN), lang) == []
    (got,) = server.got
    same(f"{scheme}.{lang}.txt", as_golden(got), site)
    assert "\x1b" not in got.body.decode()


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_mail(lang, site):
    with running(Mails()) as server:
        address = f"smtp://127.0.0.1:{server.server_address[1]}?from=nodegate@site.example"
        target = parse(f"mailto:gpu-team@site.example,ops@site.example {address}")
        assert told(site, [target], report(**RUN), lang) == []
    ((sender, to, raw),) = server.mails
    mail = email.message_from_bytes(raw, policy=email.policy.default)
    head = "".join(f"{name}: {mail[name]}\n" for name in ("From", "To", "Subject", "Content-Type"))
    text = mail.get_content().replace("\r\n", "\n")
    same(f"mailto.{lang}.txt", f"{sender} -> {', '.join(to)}\n{head}\n{text}", site)


def test_the_program(site):
    got = site / "got"
    script = f"import sys; open({str(got)!r}, 'a').write(sys.stdin.read())"
    assert told(site, [parse(f'{sys.executable} -c "{script}"')], report(**RUN)) == []
    same("program.en.txt", got.read_text(), site)


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(("server", "scheme"), [(name, name) for name in WEB], indirect=["server"])
def test_a_fleet_of_faults_stays_within_the_limit(server, scheme, lang, site):
    """The servers of the robots refuse what is larger; the end of the text is there, and all are counted."""
    target = parse(f"{scheme}:{server.url}{secret(scheme)}")
    assert told(site, [target], many_faults(), lang) == []
    (got,) = server.got
    text = got.body.decode().replace("\\", "")
    if scheme == "webhook":
        assert (got.json["counts"]["new"], len(got.json["new"])) == (100, 100)
    else:
        assert LIMITS[scheme] - 4_000 < len(got.body) <= LIMITS[scheme]
        assert re.search(r"\.\.\.(  )?n", text)
    assert "gpu0009,gpu0018" in text or "gpu[0009,0018" in text
    assert "report.html" in text


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what Apprise imports
def test_apprise(site):
    pytest.importorskip("apprise")
    with serving(Server()) as server:
        assert told(site, [parse(f"apprise:json://127.0.0.1:{server.port}/x")], report(gpu001="xid")) == []
    (got,) = server.got
    assert got.json["title"].endswith("1 rejected of 1 node")
    assert "off the bus" in got.json["message"]
