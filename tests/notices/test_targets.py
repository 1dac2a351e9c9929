"""What a user may name as a target, and that no secret of it is in a message."""

import re
import sys
from pathlib import Path

import pytest
from support.notice_servers import SECRET, TOKEN

from nodegate.errors import UsageError
from nodegate.notices.message import SCHEMA, Notice
from nodegate.notices.news import EVENTS
from nodegate.notices.target import SCHEMES, Target, hidden, parse, parse_all
from nodegate.notices.tell import ALWAYS

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "notices.md").read_text("utf-8")
URL = f"https://open.feishu.cn/open-apis/bot/v2/hook/{TOKEN}"


def has_no_secret(*texts):
    return not any(secret in text for text in texts for secret in (SECRET, TOKEN, TOKEN[:8]))


@pytest.mark.parametrize(
    ("text", "name", "rest", "warns"),
    [
        (f"feishu:{URL} {SECRET}", r"feishu:open\.feishu\.cn#[0-9a-f]{8}", SECRET, True),
        (f"feishu: {URL}\n{SECRET}\n", r"feishu:open\.feishu\.cn#[0-9a-f]{8}", SECRET, True),
        (f"dingtalk:https://oapi.dingtalk.com/robot/send?access_token={TOKEN}", r"dingtalk:oapi.+#.{8}", "", True),
        (f"webhook:http://ops:{SECRET}@[::1]:8080/x", "webhook:::1#.{8}", "", True),
        ("mailto:a@x.org,b@x.org", "mailto:a@x.org,b@x.org", "", False),
        ("mailto:a@x.org smtp://mx.x.org:25", "mailto:a@x.org", "smtp://mx.x.org:25", False),
        (f"mailto:a@x.org smtps://u:{SECRET}@mx.x.org", "mailto:a@x.org", f"smtps://u:{SECRET}@mx.x.org", True),
        ("program:/opt/page", "/opt/page", "", False),
        ("/opt/page", "/opt/page", "", False),
        ("/opt/page gpu-team", "/opt/page#.{8}", "", False),
        ("page:oncall 1", "page:oncall#.{8}", "", False),
    ],
)
def test_targets(text, name, rest, warns):
    found = parse(text)
    assert re.fullmatch(name, found.name)
    assert (found.rest, bool(found.warning)) == (rest, warns)
    assert has_no_secret(found.name, repr(found), found.warning)


def test_the_same_target_by_file_variable_and_argument(monkeypatch, tmp_path):
    """Its name is of the address, so a secret that is corrected does not make another target of it."""
    file = tmp_path / "feishu"
    file.write_text(f"{URL}\n{SECRET}\n")
    file.chmod(0o600)
    monkeypatch.setenv("CHAT", f"{URL} {SECRET}")
    found = [parse(f"feishu:{each}") for each in (f"@{file}", "$CHAT", "${CHAT}")]
    assert [each.warning for each in found] == [""] * 3
    assert {(each.name, each.address, each.rest) for each in found} == {(found[0].name, URL, SECRET)}
    assert parse_all([f"feishu:@{file}", f"feishu:{URL} other", f"feishu:{URL}x"])[0].name == found[0].name
    assert len(parse_all([f"feishu:@{file}", f"feishu:{URL} other", f"feishu:{URL}x"])) == 2


def modes(file):
    file.write_text(URL)
    file.chmod(0o640)


def binary(file):
    file.write_bytes(b"\xff\xfe")
    file.chmod(0o600)


def large(file):
    file.write_text(f"{URL}\n" + "x" * 20_000)
    file.chmod(0o600)


@pytest.mark.parametrize(
    ("make", "words"),
    [(modes, "other users can read it"), (binary, "it is not text"), (large, "larger than 16 KiB"),
     (lambda file: file.mkdir(), "cannot be read"), (lambda _: None, "No such file")],
)  # fmt: skip
def test_a_file_that_cannot_be_used(make, words, tmp_path):
    make(tmp_path / "secret")
    with pytest.raises(UsageError, match=words) as said:
        parse(f"webhook:@{tmp_path / 'secret'}")
    assert str(said.value).startswith(f"{tmp_path / 'secret'}: --notice webhook: ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("webhook:", "its address is empty"),
        ("webhook:$NODEGATE_NOT_SET", "no such variable"),
        (f"webhook:ftp://x.org/{TOKEN}", "does not begin with http"),
        (f"webhook:https://x.org:99999/{TOKEN}", "does not begin with http"),
        (f"webhook:https://x.org/{TOKEN}\x1b", "characters that none has"),
        (f"webhook:https://x.org/{TOKEN} {SECRET}", "not NAME: VALUE"),
        (f"feishu:{URL} {SECRET} more", "one secret, and no more"),
        (f"fieshu:{URL}", "no such kind of target: fieshu - did you mean feishu"),
        (f"Webhook:@/etc/{SECRET}", "no such kind of target: Webhook"),
        (f"mailto:{TOKEN}", "not a list of mail addresses"),
        (f"mailto:a@x.org http://{TOKEN}", "not a mail server"),
        (f"apprise:{TOKEN}", "not an address of Apprise"),
        ("'", "cannot be split into words"),
        ("program: ", "does not name a program"),
    ],
)
def test_what_cannot_be_used(text, words):
    with pytest.raises(UsageError, match=words) as said:
        parse(text)
    assert has_no_secret(str(said.value))
    assert said.value.hint


def test_apprise_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(UsageError, match="pip install 'nodegate\\[apprise\\]'"):
        parse(f"apprise:tgram://{TOKEN}/1")


def test_a_command_line_is_kept_without_its_secrets():
    given = ["-q", "--notice", f"feishu:{URL} {SECRET}", f"--notice=webhook:{URL}", "--notice", "webhook:@/etc/x",
             "--notice=slack:$CHAT", "--notice", f"/opt/page --key {SECRET}", "--notice", "/opt/page"]  # fmt: skip
    assert hidden(given) == ["-q", "--notice", "feishu:...", "--notice=webhook:...", "--notice", "webhook:@/etc/x",
                             "--notice=slack:$CHAT", "--notice", "/opt/page ...", "--notice", "/opt/page"]  # fmt: skip


def test_a_text_of_a_server_is_shown_without_secrets():
    target = parse(f"webhook:https://ops:pw%31@x.org/hook/{TOKEN}?key=abc12345\nX-Token: {SECRET}")
    assert isinstance(target, Target)
    said = target.without_secrets(f"no hook {TOKEN} {TOKEN[:8]} abc12345 ops:pw%31 {SECRET} at x.org, robot")
    assert said == f"no hook *** {TOKEN[:8]} *** *** *** at x.org, robot"


def test_the_page_has_each_scheme_key_and_result():
    asked = [f"`{each}:`" for each in SCHEMES] + [f'"{each}"' for each in (SCHEMA, *Notice.__dataclass_fields__)]
    assert [each for each in (*asked, *(f"`{each}`" for each in (*EVENTS, *ALWAYS))) if each not in PAGE] == []
