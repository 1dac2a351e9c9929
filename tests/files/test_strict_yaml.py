"""YAML read strictly: plain data, its lines, and slips of the pen as errors."""

import pytest
import yaml

from nodegate.errors import UsageError
from nodegate.files import strict_yaml
from nodegate.files.strict_yaml import Tagged


def load(text):
    return strict_yaml.load(text, "site.yaml")


def value(text):
    return load(f"key: {text}").value["key"]


@pytest.mark.parametrize(
    "text",
    ["0123456", "12:34:56", "2024-01-31", "0x2330", "0b11", "1_000", "1e5", ".nan", ".inf", "1." + "9" * 40, "9" * 19],
)
def test_what_may_be_a_serial_an_address_or_a_date_stays_text(text):
    assert value(text) == text


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("0", 0),
        ("1.50", 1.5),
        ("2.5e-3", 0.0025),
        ("yes", True),
        ("True", True),
        ("~", None),
        ("", None),
        ("'8'", "8"),
        ("!!str 8", "8"),
        ("!!timestamp 2024-01-31", "2024-01-31"),
        ("[1, a, [b]]", [1, "a", ["b"]]),
        ("|\n  two\n  lines", "two\nlines"),
    ],
)
def test_plain_values(text, meaning):
    read = value(text)
    assert read == meaning
    assert type(read) is type(meaning)


def test_a_key_given_twice_is_an_error_that_names_both_lines():
    with pytest.raises(UsageError, match=r"site\.yaml:4: the key 'hosts' occurs twice.*site\.yaml:2"):
        load("all:\n  hosts: a\n  vars: {}\n  hosts: b\n")


def test_unknown_tags_stay_closed_and_stop_who_uses_them():
    loaded = load("secret: !vault |\n  $ANSIBLE_VAULT;1.1\nlist: !mine [1, 2]\nok: 1")
    secret = loaded.value["secret"]
    assert secret == Tagged("!vault", "$ANSIBLE_VAULT;1.1\n")
    assert loaded.value["list"] == Tagged("!mine", "")
    assert loaded.value["ok"] == 1
    assert "ANSIBLE_VAULT" not in f"{secret!r} {secret}"
    with pytest.raises(TypeError, match="!vault"):
        bool(secret)


def test_python_objects_are_never_made(tmp_path):
    victim = tmp_path / "made"
    loaded = load(f"x: !!python/object/apply:os.mkdir ['{victim}']\ny: !!python/name:os.system ''")
    assert [type(each) for each in loaded.value.values()] == [Tagged, Tagged]
    assert not victim.exists()


def test_merge_keys_give_way_to_own_keys_and_keep_their_lines():
    loaded = load("base: &base\n  a: 1\n  b: 1\nown:\n  <<: *base\n  b: 2\nboth:\n  <<: [{a: 3}, *base]\n")
    assert loaded.value["own"] == {"a": 1, "b": 2}
    assert loaded.value["both"] == {"a": 3, "b": 1}
    assert [loaded.line(("own", key)) for key in "ab"] == [2, 6]


def test_lines_of_paths_and_the_nearest_line_for_what_is_not_there():
    loaded = load("# a comment\nall:\n  hosts:\n    gpu1:\n      list:\n        - 1\n        - {x: 2}\n")
    assert loaded.line(()) == 2
    assert loaded.line(("all", "hosts", "gpu1")) == 4
    assert loaded.line(("all", "hosts", "gpu1", "list", 1, "x")) == 7
    assert loaded.line(("all", "hosts", "gpu9", "list")) == 3
    assert loaded.line(("all", "hosts", "gpu1", "list", 5)) == 5
    assert loaded.line((["unhashable"],)) == 2


def test_an_unknown_key_is_reported_with_its_place_and_the_near_word():
    loaded = load("gpu:\n  host: a\n")
    problem = loaded.unknown_key(("gpu", "host"), ("hosts", "children", "vars"))
    assert str(problem) == "site.yaml:2: gpu: unknown key 'host' - did you mean hosts?"


BILLION_LAUGHS = "- &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"- &{after} [{','.join(['*' + before] * 10)}]\n" for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BILLION_LAUGHS, r"site\.yaml:\d+: more than 2000000 values"),
        ("[" * 100_000, r"site\.yaml:1: nested deeper than 50 levels"),
        ("a: &a\n  b: *a", r"site\.yaml:2: \*a refers to an anchor"),
        ("a: *nobody", r"site\.yaml:1: \*nobody refers to an anchor"),
        ("a: 1\n---\nb: 2", r"site\.yaml:\d: a second document"),
        ("a: 1\n b: 2", r"site\.yaml:2: this is not YAML"),
        ("a:\n\tb: 1", r"site\.yaml:2: this is not YAML.*no tabs"),
        ("a: \x00", r"site\.yaml.*: this is not YAML"),
        ("a: 'open", r"site\.yaml:\d: this is not YAML"),
        ("? [a]\n: 1", r"site\.yaml:1: a key must be plain text"),
        ("~: 1", r"site\.yaml:1: a key must be plain text"),
        ("a: !!int many", r"site\.yaml:1: 'many' is not a valid int"),
        ("<<: 1", r"site\.yaml:1: << needs a mapping"),
        ("a: &x {}\nb:\n  <<: *x\n  <<: *x", r"site\.yaml:4: the key << occurs twice"),
        ("a: \ud800", r"site\.yaml: this is not valid Unicode"),
    ],
)
def test_errors_have_file_and_line(text, message):
    with pytest.raises(UsageError, match=message):
        load(text)


def test_a_file_too_large_is_refused_without_reading_it_all(tmp_path):
    file = tmp_path / "large.yaml"
    with file.open("wb") as out:
        out.truncate(1 << 30)  # a hole: takes no space
    with pytest.raises(UsageError, match="larger than 16777216 bytes"):
        strict_yaml.load_file(file)


def test_what_is_no_file_of_text_is_refused(tmp_path):
    (tmp_path / "hosts.yaml").touch()
    with pytest.raises(UsageError, match=r"host\.yaml: cannot read it: No such file.*did you mean .*hosts\.yaml"):
        strict_yaml.load_file(tmp_path / "host.yaml")
    with pytest.raises(UsageError, match="Is a directory"):
        strict_yaml.load_file(tmp_path)
    (tmp_path / "latin1.yaml").write_bytes(b"a: 1\nb: \xe9\n")
    with pytest.raises(UsageError, match=r"latin1\.yaml:2: this is not UTF-8"):
        strict_yaml.load_file(tmp_path / "latin1.yaml")


def test_a_byte_order_mark_does_not_matter_and_nothing_is_none(tmp_path):
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfa: 1\r\n")
    assert strict_yaml.load_file(tmp_path / "bom.yaml").value == {"a": 1}
    assert load("# nothing\n").value is None


def test_it_also_works_without_the_c_parser(monkeypatch):
    monkeypatch.setattr(strict_yaml, "_LOADER", yaml.SafeLoader)
    loaded = load("a: &x {b: 0123, c: !vault z}\nd: {<<: *x}")
    assert loaded.value == {key: {"b": "0123", "c": Tagged("!vault", "z")} for key in "ad"}
    with pytest.raises(UsageError, match=r"site\.yaml:2: this is not YAML"):
        load("a: 1\n b: 2")
