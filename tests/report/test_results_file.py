"""results.jsonl and its tables: what is written comes back, whatever is folded, and what is wrong in them is named."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from support import sample_report
from support.sample_report import fleet

from nodegate.errors import UsageError
from nodegate.records import part
from nodegate.records.finding import AT_LEAST, Finding, Limit, LimitKind, Record
from nodegate.records.part import NODE, Kind, Part, to_json
from nodegate.records.verdict import Verdict
from nodegate.report import jsonl
from nodegate.report.part_names import fold, unfold
from nodegate.report.results_file import ResultsFile, cut_line, fingerprint, read, write_all
from nodegate.unknown import Why

DOCS = Path(__file__).parents[2] / "docs"
FLEET = [record for node in fleet(16).nodes for record in node.records]


def passed(of: Part, value: object = 16, **more: object) -> Finding:
    limit = Limit(16, "lanes", "the device", AT_LEAST, LimitKind.DEVICE)
    return Finding(
        **{
            "part": of,
            "verdict": Verdict.PASS,
            "quantity": "link width",
            "observed": value,
            "unit": "lanes",
            "limit": limit,
            **more,
        }
    )  # type: ignore[arg-type]


def of_node(node: str, *findings: Finding, verdict: Verdict = Verdict.PASS, **more: object) -> Record:
    evidence = (f"evidence/{node}/facts.json",)
    return Record(node, "pcie.link_width", verdict, findings, ("F05",), evidence, **more)  # type: ignore[arg-type]


def back(folder: Path, *records: Record) -> list[Record]:
    """The records as they come back; `write` said how that would be."""
    folder.mkdir(exist_ok=True)
    with ResultsFile(folder) as file:
        said = [file.write(record) for record in records]
    found = read(folder / "results.jsonl")
    assert found == said
    return found


def lines(folder: Path, name: str = "results.jsonl") -> list[dict]:
    return [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]


def same(one: Record, other: Record) -> bool:
    """Whether both say the same, in any order of what is healthy."""
    rest = [dataclasses.replace(each, findings=(), duration_s=0.0) for each in (one, other)]
    healthy = [
        sorted(repr(each) for each in record.findings if each.verdict is Verdict.PASS) for record in (one, other)
    ]
    bad = [[each for each in record.findings if each.verdict is not Verdict.PASS] for record in (one, other)]
    return rest[0] == rest[1] and healthy[0] == healthy[1] and bad[0] == bad[1] and one.message == other.message


def test_records_come_back_as_they_went(tmp_path: Path) -> None:
    for went, came in zip(FLEET, back(tmp_path, *FLEET), strict=True):
        assert same(went, came)


def test_every_line_follows_its_schema(tmp_path: Path) -> None:
    back(tmp_path, *FLEET)
    for name in ("results", "results.tables"):
        schema = json.loads((DOCS / f"{name}.schema.json").read_text(encoding="utf-8"))
        Draft202012Validator.check_schema(schema)
        validator = Draft202012Validator(schema)
        for line in lines(tmp_path, f"{name}.jsonl"):
            validator.validate(line)
        assert len(list(validator.iter_errors({"node": "a", "check": "b", "verdict": "fine"}))) > 0


def test_a_line_a_node_and_check_and_what_is_healthy_takes_little(tmp_path: Path) -> None:
    records = [
        of_node(f"gpu{number:03}", *(passed(sample_report.gpu(index, f"gpu{number:03}")) for index in range(8)))
        for number in range(50)
    ]
    back(tmp_path, *records)
    assert [line["node"] for line in lines(tmp_path)] == [record.node for record in records]
    assert {json.dumps(line["passed"]) for line in lines(tmp_path)} == {
        '[{"same": "' + lines(tmp_path)[0]["passed"][0]["same"] + '"}]'
    }
    [group] = [line for line in lines(tmp_path, "results.tables.jsonl") if "same" in line]
    assert (group["parts"], group["values"], group["limit_source"]) == (["GPU 0..7"], [16] * 8, "the device")
    size = (tmp_path / "results.jsonl").stat().st_size
    assert size < 0.03 * sum(len(jsonl.line(record)) for record in records)


def test_measured_numbers_stand_in_their_line(tmp_path: Path) -> None:
    gpus = [sample_report.gpu(index) for index in range(8)]
    notes = [f"median {55 + index}.1 GB/s of 11 other nodes" for index in range(8)]
    went = of_node("gpu001", *(passed(gpu, 55.0 + gpu.index, note=notes[gpu.index]) for gpu in gpus))
    assert back(tmp_path, went) == [went]
    [group] = lines(tmp_path)[0]["passed"]
    assert (group["quantity"], group["parts"], group["values"][:2]) == ("link width", ["GPU 0..7"], [55.0, 56.0])
    told = {line["words"]: line["is"] for line in lines(tmp_path, "results.tables.jsonl") if "words" in line}
    assert [told[note] for note in group["notes"]] == notes


@pytest.mark.parametrize("verdict", [verdict for verdict in Verdict if verdict is not Verdict.PASS])
def test_nothing_that_did_not_pass_is_folded(tmp_path: Path, verdict: Verdict) -> None:
    odd = Finding(sample_report.gpu(3), verdict, text="no limit for this board", action="add one", code="x")
    healthy = [passed(sample_report.gpu(index)) for index in (0, 1, 2, 4)]
    for own in (verdict, Verdict.PASS):
        went = of_node("gpu001", *healthy[:2], odd, *healthy[2:], verdict=own)
        [came] = back(tmp_path, went)
        assert same(went, came)
        [line] = lines(tmp_path)
        [told] = line["findings"]
        assert (told["verdict"], told["text"]) == (verdict.value, odd.text)
        assert (told.get("device", odd.part.label), told.get("message", odd.message)) == (odd.part.label, odd.message)
        assert ("device" in told) is ("message" in told) is (verdict is not Verdict.SKIP)
        assert told["part"] == ("GPU 3" if verdict is Verdict.SKIP else to_json(odd.part))
        assert told["action"] == "add one"


def test_a_skip_of_many_parts_names_them_in_short(tmp_path: Path) -> None:
    for many, told in ((8, ["GPU 1..7"]), (2500, None)):
        first, *others = (part.gpu(index, serial=f"16500{index}") for index in range(many))
        went = of_node("gpu001", Finding(first, Verdict.SKIP, text="too old", also=tuple(others)), verdict=Verdict.SKIP)
        assert back(tmp_path, went) == [went]
        [skipped] = lines(tmp_path)[0]["findings"]
        assert skipped["part"] == "GPU 0"
        assert skipped["also"] == (told or [to_json(each) for each in others])
        assert not skipped.keys() & {"device", "message"}


def test_a_line_that_did_not_pass_has_every_key_as_before(tmp_path: Path) -> None:
    for verdict in (Verdict.FAIL, Verdict.ERROR, Verdict.WARN, Verdict.NOT_JUDGED):
        back(tmp_path, of_node("gpu001", Finding(NODE, verdict, text="odd"), verdict=verdict))
        [line] = lines(tmp_path)
        assert line == jsonl.to_json(read(tmp_path / "results.jsonl")[0])
    back(tmp_path, of_node("gpu001", passed(NODE), waiver="riser on order"))
    assert lines(tmp_path)[0]["failure_modes"] == ["F05"]


def test_limits_of_the_node_itself_come_back_each(tmp_path: Path) -> None:
    def against(number: int, kind: LimitKind) -> Finding:
        limit = Limit(700.0 + number, "W", f"95 % of {number}, the median", AT_LEAST, kind)
        return Finding(part.gpu(number), Verdict.PASS, "power", 710.0 + number, "W", limit, metric="burn.power")

    for kind in LimitKind:
        went = of_node("gpu001", *(against(number, kind) for number in range(4)))
        assert back(tmp_path, went) == [went]
    [group] = lines(tmp_path)[0]["passed"]
    assert group["limits"] == [700.0, 701.0, 702.0, 703.0]


def test_equal_values_of_another_type_stay_apart(tmp_path: Path) -> None:
    values = (True, 1, 1.0, "1", False, 0, 0.0, frozenset(("a", "b")), (1.0, 2.5))
    went = [
        of_node("gpu001", Finding(NODE, Verdict.PASS, "x", observed, limit=Limit(value)))
        for value in values
        for observed in values[:7]
    ]
    assert list(map(repr, back(tmp_path, *went))) == list(map(repr, went))


def test_two_parts_of_one_name_stay_apart(tmp_path: Path) -> None:
    twins = [
        part.gpu(0, serial="1"),
        part.gpu(0, serial="2"),
        part.software("GPU 1..3"),
        part.gpu(1),
        part.gpu(2),
        part.gpu(3),
    ]
    port = part.port(Part(Kind.NIC, "mlx5_2", address="0000:3a:00.0", serial="MT1"), 1)
    went = of_node("gpu001", *map(passed, [*twins, port]), passed(port, also=tuple(twins)))
    other = of_node("gpu002", passed(part.gpu(0)), passed(part.gpu(1, address="0000:19:00.0")))
    assert back(tmp_path, went, other) == [went, other]


NAMES = st.lists(st.text(alphabet="ab 0129.", max_size=8), max_size=12)


@given(NAMES)
@settings(max_examples=100, deadline=None)
def test_lists_of_parts_come_back(names: list[str]) -> None:
    kept = tuple(name for name in names if ".." not in name)
    assert unfold(fold(kept)) == kept


def test_lists_of_parts_are_short() -> None:
    assert fold(tuple(f"GPU {number}" for number in range(8))) == ("GPU 0..7",)
    assert fold(("mlx5_0 port 1", "mlx5_1 port 1", "mlx5_2 port 1", "node")) == ("mlx5_0..2 port 1", "node")
    assert fold(("GPU 0", "GPU 1", "GPU 3", "GPU 03", "a")) == ("GPU 0", "GPU 1", "GPU 3", "GPU 03", "a")
    with pytest.raises(ValueError, match="a list of"):
        unfold(("GPU 0..999999",))
    with pytest.raises(ValueError, match="more than"):
        unfold(("GPU 0..1500", "GPU 0..1500"))


def test_each_record_is_on_disk_when_write_returns(tmp_path: Path) -> None:
    file = ResultsFile(tmp_path)
    for record in FLEET[:100]:
        file.write(record)
        assert read(tmp_path / "results.jsonl")[-1].check == record.check
    file.close()
    file.close()


def test_a_line_cut_by_a_crash_is_left_out(tmp_path: Path) -> None:
    records = back(tmp_path, *FLEET[:3])
    path = tmp_path / "results.jsonl"
    path.write_bytes(path.read_bytes()[:-5])
    tables = tmp_path / "results.tables.jsonl"
    tables.write_bytes(tables.read_bytes() + b'{"words": "123456", "is')
    assert read(path) == records[:2]
    assert cut_line(path) == 3
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))
    assert cut_line(path) == 0


def test_the_fingerprint_is_that_of_the_sorted_lines(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    write_all(FLEET, tmp_path / "a")
    write_all(sorted(FLEET, key=lambda record: record.check), tmp_path / "b")
    assert fingerprint(tmp_path / "a" / "results.jsonl") == fingerprint(tmp_path / "b" / "results.jsonl")
    for name in ("results.jsonl", "results.tables.jsonl"):
        sort = subprocess.run(["sort", name], cwd=tmp_path / "a", env={"LC_ALL": "C"}, capture_output=True, check=True)
        told = subprocess.run(["sha256sum"], input=sort.stdout, capture_output=True, check=True).stdout.decode()
        assert told.split()[0] == fingerprint(tmp_path / "a" / name)[0]
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["results.jsonl", "results.tables.jsonl"]


def test_so_it_is_of_lines_that_nodegate_did_not_write(tmp_path: Path) -> None:
    lines = [
        '{"node":"a","x"',
        '{"node":"a"',
        '{"node":"a",',
        '{"node":"ab","x"',
        "",
        '"',
        '",',
        '",,',
        "{",
        "Z",
        '{"node":"',
    ]
    path = tmp_path / "odd.jsonl"
    path.write_bytes("\n".join([*lines, *reversed(lines), '{"node":"a","cut']).encode())
    sort = b"".join(sorted(path.read_bytes().splitlines(keepends=True)))
    assert fingerprint(path) == (hashlib.sha256(sort).hexdigest(), 2 * len(lines) + 1)


def test_results_without_their_tables_are_one_message(tmp_path: Path) -> None:
    back(tmp_path, *FLEET[:3])
    (tmp_path / "results.tables.jsonl").unlink()
    with pytest.raises(UsageError, match=r"results.tables.jsonl: cannot be read .* with all of its files"):
        read(tmp_path / "results.jsonl")


def test_results_of_the_form_before_are_read(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text("".join(map(jsonl.line, FLEET)), encoding="utf-8")
    assert read(tmp_path / "results.jsonl") == FLEET


GOOD = {"node": "gpu001", "check": "pcie.link_width", "verdict": "pass"}
TABLES = [
    {"schema": "nodegate.results/2"},
    {"check": "pcie.link_width", "failure_modes": [], "evidence": []},
    {"part": "GPU 0", "is": {"kind": "gpu", "index": 0}},
    {"part": "loop", "is": {"kind": "gpu", "of": "loop"}},
    {"part": "toast", "is": {"kind": "toaster"}},
    {"rule": "aaaaaa", "quantity": "link width", "limit": 3},
    {"same": "bbbbbb", "parts": ["GPU 0"], "values": [1], "noise": 1},
]


@pytest.mark.parametrize(
    ("passed", "message"),
    [
        ("GPU 0", "`passed` is not a list"),
        (["GPU 0"], "a group of what passed is not an object"),
        ([{"same": "cccccc"}], "same 'cccccc' is not in the tables"),
        ([{"same": ["x"]}], "is not in the tables"),
        ([{"same": "bbbbbb"}], "a group has the unknown key `noise`"),
        ([{"rule": "dddddd", "parts": ["GPU 0"], "values": [1]}], "rule 'dddddd' is not in the tables"),
        ([{"rule": "aaaaaa", "parts": ["GPU 0"], "values": [1]}], "is not the kind of a limit"),
        ([{"parts": ["GPU 1"], "values": [1]}], "the part 'GPU 1' of 'gpu001' is not in the tables"),
        ([{"parts": ["loop"], "values": [1]}], "the part 'loop' of 'gpu001' is not in the tables"),
        ([{"parts": ["toast"], "values": [1]}], "the part 'toast': "),
        ([{"parts": ["GPU 0"], "values": [1, 2]}], "`values` of a group are not one a part"),
        ([{"parts": ["GPU 0"], "values": [[1]]}], "`value` of a finding is not a plain value"),
        ([{"parts": ["GPU 0"], "values": [1], "notes": []}], "`notes` of a group are not one a part"),
        ([{"parts": ["GPU 0..99999"], "values": [1]}], "a list of 99999 parts"),
        ([{"parts": [], "value": 1}], "a group of no parts"),
        ([{"parts": [5], "value": 1}], "a list of parts has something that is not a name"),
        ([{"parts": "cccccc", "value": 1}], "list 'cccccc' is not in the tables"),
        ([{"parts": ["GPU 0"], "values": [1], "verdict": "pass"}], "a group has the unknown key `verdict`"),
    ],
)
def test_a_wrong_group_is_named(tmp_path: Path, passed: object, message: str) -> None:
    (tmp_path / "results.tables.jsonl").write_text("".join(json.dumps(line) + "\n" for line in TABLES))
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(GOOD) + "\n" + json.dumps({**GOOD, "passed": passed}) + "\n")
    with pytest.raises(UsageError) as caught:
        read(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{path}:2: ")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[]", "not a JSON object"),
        ('{"schema": "nodegate.results/9"}', "not of schema nodegate.results/2 - another version"),
        ('{"same": 5}', "not a line of these tables"),
        ('{"odd": "x"}', "not a line of these tables"),
        ('{"node": "gpu001", "parts": 5}', "`parts` of a node is not an object"),
    ],
)
def test_a_wrong_line_of_the_tables_is_named(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "results.tables.jsonl").write_text(json.dumps(TABLES[0]) + "\n" + line + "\n")
    (tmp_path / "results.jsonl").write_text(json.dumps(GOOD) + "\n")
    with pytest.raises(UsageError) as caught:
        read(tmp_path / "results.jsonl")
    assert str(caught.value).startswith(f"{tmp_path}/results.tables.jsonl:2: {message}")


def test_a_file_of_nothing_but_references_does_not_grow_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodegate.report.short_reader.MOST_PARTS", 10_000)
    names = {"part": "GPU 0", "is": {"kind": "gpu"}}, {"list": "cccccc", "of": ["GPU 0"] * 1500}
    same = {"same": "eeeeee", "parts": "cccccc", "value": 1}
    (tmp_path / "results.tables.jsonl").write_text("".join(json.dumps(each) + "\n" for each in (*TABLES, *names, same)))
    (tmp_path / "results.jsonl").write_text((json.dumps({**GOOD, "passed": [{"same": "eeeeee"}]}) + "\n") * 8)
    with pytest.raises(UsageError, match="more parts than any run has"):
        read(tmp_path / "results.jsonl")


# ---- everything in one line ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LimitKind)
def test_what_a_limit_rests_on_comes_back_from_jsonl(kind: LimitKind) -> None:
    limit = Limit(16, "lanes", "some source", AT_LEAST, kind)
    finding = Finding(part.gpu(1), Verdict.PASS, "link width", 16, "lanes", limit)
    assert jsonl.finding_from_json(jsonl.finding_to_json(finding)) == finding
    assert kind.is_absolute is (kind.value not in {"fleet", "node", "past"})


def test_every_field_of_a_finding_comes_back(tmp_path: Path) -> None:
    whole = Finding(
        part.port(part.nic("mlx5_2", address="0000:3a:00.0", netdev="ibs2"), 1),
        Verdict.ERROR,
        "link width",
        8,
        "lanes",
        Limit(frozenset(("8", "16")), "lanes", "its own maximum", AT_LEAST),
        text="x8",
        note="riser",
        action="reseat",
        code="79",
        metric="a.b",
        share=0.5,
        why=Why.TIMEOUT,
        blocked_by="gpu.lost",
        also=(part.gpu(1, serial="16500"), NODE),
    )
    record = Record("gpu001", "a.b", Verdict.ERROR, (whole,), remark="waiver expired")
    assert back(tmp_path, record) == [record]
    assert jsonl.from_json(json.loads(jsonl.line(record))) == record


def test_what_an_older_release_wrote_is_refused_with_the_way_out(tmp_path: Path) -> None:
    old = jsonl.to_json(sample_report.passed("gpu001", "gpu.count"))
    del old["remark"]
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(old) + "\n", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read(path)
    assert "results of an older release" in str(caught.value)
    assert "nodegate 0.1" in str(caught.value)
    assert "--replay" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"verdict": "good"}, "'good' is not a verdict"),
        ({"verdict": ["pass"]}, "is not a verdict"),
        ({"node": 5}, "`node` is not text"),
        ({"findings": {}}, "`findings` is not a list"),
        ({"findings": [3]}, "a finding is not an object"),
        ({"findings": [{"part": {"kind": "gpu"}}]}, "'' is not a verdict"),
        ({"evidence": [1]}, "`evidence` is not a list of texts"),
        ({"duration_s": True}, "`duration_s` is not a number"),
        ({"surprise": 1}, "a result has the unknown key `surprise`"),
        ({"findings": [{"verdict": "pass", "part": {"kind": "toaster"}}]}, "the part of a finding"),
        ({"findings": [{"verdict": "pass", "part": {"kind": "gpu"}, "share": "half"}]}, "`share` of a finding"),
        ({"findings": [{"verdict": "pass", "part": {"kind": "gpu"}, "why": "tired"}]}, "is not a reason"),
        ({"findings": [{"verdict": "pass", "part": {"kind": "gpu"}, "limit": 3}]}, "is not the kind of a limit"),
        ({"findings": [{"verdict": "pass", "part": {"kind": "gpu"}, "noise": 1}]}, "has the unknown key `noise`"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, change: dict, message: str) -> None:
    good = sample_report.passed("gpu001", "gpu.count")
    path = tmp_path / "results.jsonl"
    path.write_text(jsonl.line(good) + json.dumps(jsonl.to_json(good) | change) + "\n", encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{path}:2: ")


def test_a_missing_key_is_named() -> None:
    entry = jsonl.to_json(sample_report.passed("gpu001", "gpu.count"))
    del entry["verdict"]
    with pytest.raises(UsageError, match="a result lacks `verdict`"):
        jsonl.from_json(entry)


@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000, "null"])
def test_what_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(text + "\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"results.jsonl:1: not (a )?JSON"):
        read(path)


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name the folder of a run"):
        read(tmp_path / "results.jsonl")
