"""A demands file is read as it was written, by this node alone, or refused in one line."""

import json
import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodegate.demands import here
from nodegate.demands.demands import Demands, Embedded, parse
from nodegate.errors import UsageError

OWN = "gpu01"
WHOLE = Demands(
    OWN,
    {"nodegate_ports": [29500], "nodegate_expect": {"driver": "550.163.01"}, "nodegate_limits": {"gpu.count": 8}},
    "hgx-h100-8",
    (Embedded("site.yaml", {"platform": "hgx-h100-8", "limits": {}}),),
    Embedded("strict.yaml", {"policy": "strict", "limits": {"*": {}}}),
    made="2026-11-25T18:00:00Z",
)
READABLE = json.loads(WHOLE.text)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture(autouse=True)
def own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: OWN)
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "demands.yaml"
    found.write_text(WHOLE.text)
    found.chmod(0o644)
    return found


@given(st.dictionaries(st.text(min_size=1).map(lambda name: f"nodegate_{name}"), values, max_size=4))
def test_what_is_written_is_read(variables: dict[str, object]) -> None:
    written = Demands(OWN, variables, made="now")
    raw = written.text.encode("utf-8", "backslashreplace")
    found = parse(raw, "demands.yaml")
    assert (found.node, found.variables, found.sha256) == (written.node, written.variables, written.sha256)


def test_the_hash_is_of_what_is_demanded_and_not_of_the_time() -> None:
    assert Demands(OWN, {"nodegate_ports": [1]}, made="a").sha256 == Demands(OWN, {"nodegate_ports": [1]}).sha256
    different = [
        *(Demands(OWN, {"nodegate_ports": [1]}), Demands("gpu02", {"nodegate_ports": [1]})),
        *(Demands(OWN, {"nodegate_ports": ["1"]}), Demands(OWN, {"nodegate_ports": [1]}, "l40s")),
        Demands(OWN, {"nodegate_ports": [1]}, "", (Embedded("a", {}),)),
        Demands(OWN, {"nodegate_ports": [1]}, policy=Embedded("a", {})),
    ]
    assert len({each.sha256 for each in different}) == len(different)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), {1: 2, "1": 3}, object()], ids=["nan", "inf", "keys", "object"]
)
def test_what_no_json_can_say_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match="cannot be written as JSON"):
        _ = Demands(OWN, {"nodegate_limits": value}).text


@pytest.mark.parametrize("key", READABLE)
@pytest.mark.parametrize("value", ["gone", None, 1, "x", [], [1], {"x": 1}, {"file": 1, "content": {}}], ids=repr)
def test_another_value_of_any_key_is_refused(key: str, value: object) -> None:
    changed = {**READABLE, key: value}
    if value == "gone":
        del changed[key]
    if key == "made" and isinstance(value, str) and value != "gone":
        assert parse(json.dumps(changed).encode(), "f").sha256 == WHOLE.sha256
        return
    with pytest.raises(UsageError) as said:
        parse(json.dumps(changed).encode(), "f")
    assert "\n" not in str(said.value)


@pytest.mark.parametrize("end", range(0, len(WHOLE.text) - 2, 37))
def test_a_file_that_was_cut_off_is_refused(end: int) -> None:
    with pytest.raises(UsageError, match="damaged"):
        parse(WHOLE.text[:end].encode(), "f")


@given(st.integers(0, len(WHOLE.text.encode()) - 1), st.integers(0, 255))
def test_no_byte_of_what_is_demanded_can_be_changed(at: int, value: int) -> None:
    raw = bytearray(WHOLE.text.encode())
    raw[at] = value
    try:
        found = parse(bytes(raw), "f")
    except UsageError:
        return
    assert (found.sha256, found.variables) == (WHOLE.sha256, WHOLE.variables)


@pytest.mark.parametrize("raw", [b"", b"[]", b"null", b"\xff", b"[" * 9000, b"platform: x\n", b'{"a":1,"a":2}'])
def test_what_is_no_demands_file_is_refused(raw: bytes) -> None:
    with pytest.raises(UsageError, match=r"not a demands file|schema"):
        parse(raw, "f")


def test_a_later_schema_is_named() -> None:
    with pytest.raises(UsageError, match=r"schema 'nodegate.demands/2', this release reads nodegate.demands/1"):
        parse(json.dumps({**READABLE, "schema": "nodegate.demands/2"}).encode(), "f")


def test_the_file_is_found(file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(here, "FILE", tmp_path / "none.yaml")
    assert here.demands_here() is None
    monkeypatch.setattr(here, "FILE", file)
    for found in (here.demands_here(), here.demands_here(file)):
        assert found is not None
        assert (found.sha256, found.place) == (WHOLE.sha256, str(file))
    link = tmp_path / "link.yaml"
    link.symlink_to(file)
    assert here.demands_here(link) is not None
    with pytest.raises(UsageError, match="No such file"):
        here.demands_here(tmp_path / "other.yaml")


@pytest.mark.parametrize(
    ("mode", "of_folder", "said"),
    [
        *((mode, 0o755, "other users can write it - give it to root alone") for mode in (0o664, 0o646, 0o666)),
        (0o644, 0o777, "other users can write into its folder"),
    ],
)
def test_one_that_others_can_write_is_refused(file: Path, mode: int, of_folder: int, said: str) -> None:
    file.chmod(mode)
    file.parent.chmod(of_folder)
    with pytest.raises(UsageError, match=said):
        here.demands_here(file)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_one_that_is_not_roots_is_refused(file: Path) -> None:
    os.chown(file, 65534, -1)
    with pytest.raises(UsageError, match="it does not belong to root"):
        here.demands_here(file)


@pytest.mark.parametrize("kind", ["folder", "pipe", "nowhere", "zero", "large"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "demands.yaml"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "large":
        path.write_bytes(b" " * (5 << 20))
        path.chmod(0o644)
    else:
        path.symlink_to("/dev/zero" if kind == "zero" else "no-such-file")
    with pytest.raises(UsageError, match=r"cannot be used|larger than"):
        here.demands_here(path)


@pytest.mark.parametrize(
    ("node", "is_ours"),
    [
        *(("gpu01", True), ("GPU01", True), ("gpu01.cluster.local", True), ("gpu01.", True)),
        *(("gpu02", False), ("gpu1", False), ("gpu010", False), ("10.0.0.1", False), ("", False)),
    ],
)
def test_it_is_for_the_node_of_this_name(file: Path, node: str, *, is_ours: bool) -> None:
    file.write_text(Demands(node, {}).text)
    if is_ours:
        assert here.demands_here(file) is not None
        return
    with pytest.raises(UsageError, match=f"the demands of {node}, this is gpu01"):
        here.demands_here(file)


def test_two_domains_are_two_machines(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu01.east")
    file.write_text(Demands("gpu01.west", {}).text)
    with pytest.raises(UsageError, match=r"demands of gpu01\.west"):
        here.demands_here(file)


def test_slurms_name_for_it_will_do(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "ip-10-0-0-1")
    monkeypatch.setenv("SLURMD_NODENAME", OWN)
    assert here.demands_here(file) is not None
