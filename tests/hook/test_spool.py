"""What hooks note on their node: bounded, whole, collected once, and never a reason for another exit."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from support.payload import run_probe
from support.remembered import keep as keep_run
from support.remembered import placed

from nodegate import cli
from nodegate.exit_codes import Exit
from nodegate.facts import NodeFacts
from nodegate.hook import current_verdict, spool
from nodegate.hook.current_verdict import Answer
from nodegate.hook.hooks import HookResult
from nodegate.past import database, events
from nodegate.past.keys import Keys
from nodegate.past.record import FleetRecord
from nodegate.probe import hooks
from nodegate.probe.collect import decode
from nodegate.run.for_the_record import hook_events

LOST = Answer(Exit.UNFIT, "unfit: GPU 3: lost", causes=("gpu01/GPU 3/gpu_lost",), demands="ab" * 32)
UNFIT = HookResult(1, "unfit: GPU 3: lost; drained", answer=LOST, done="drained")
FIT = HookResult(0, "fit: 77 checks passed", is_news=False, answer=Answer(Exit.FIT, "fit: 77 checks passed"))
BUSY = HookResult(0, "busy: another run", answer=Answer(Exit.BUSY, "busy: another run"))
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount")


def lines(folder):
    return [json.loads(line) for line in (folder / spool.FILE).read_text().splitlines()]


def test_each_verdict_is_a_line_with_all_that_a_run_asks_for(tmp_path):
    folder = tmp_path / "state"
    before = os.umask(0o077)
    try:
        spool.note(folder, "slurm-prolog", UNFIT)
        spool.note(folder, "slurm-healthcheck", FIT)
    finally:
        os.umask(before)
    one, two = lines(folder)
    assert (folder / spool.FILE).stat().st_mode & 0o777 == 0o644
    assert two["sequence"] == one["sequence"] + 1
    assert one.keys() == {*hooks._FIELDS, "epoch_s", "sequence", "exit", "causes"}
    assert (one["hook"], one["answer"], one["exit"]) == ("slurm-prolog", "unfit", 1)
    assert (one["causes"], one["demands"], one["done"]) == (list(LOST.causes), LOST.demands, "drained")


def test_it_never_grows_over_its_size_and_counts_what_it_dropped(tmp_path):
    for _ in range(3):
        spool.note(tmp_path, "slurm-prolog", UNFIT)
    file = tmp_path / spool.FILE
    one = file.read_bytes().splitlines(keepends=True)[-1]
    written = 3
    for _ in range(2):  # nearly full, twice
        count = (spool.MOST_BYTES - file.stat().st_size) // len(one)
        file.write_bytes(file.read_bytes() + one * count)
        for _ in range(3):
            spool.note(tmp_path, "slurm-epilog", FIT)
            assert file.stat().st_size <= spool.MOST_BYTES
        written += count + 3
        head, *kept = lines(tmp_path)
        assert (head["schema"], head["dropped"]) == (hooks.SCHEMA, written - len(kept))
        assert [each["hook"] for each in kept[-3:]] == ["slurm-epilog"] * 3
        assert len(kept) > spool.MOST_BYTES // len(one) // 2
    assert [path.name for path in tmp_path.iterdir()] == [spool.FILE]


def test_no_number_is_used_twice_in_a_boot(tmp_path, monkeypatch):
    monkeypatch.setattr(spool, "now_s", lambda: 100.0)
    spool.note(tmp_path, "slurm-prolog", FIT)
    with (tmp_path / spool.FILE).open("ab") as file:
        file.write(b'{"boot_id": "another", "sequence": 7}\n{"sequ')  # of a hook that was killed
    spool.note(tmp_path, "slurm-prolog", FIT)
    (tmp_path / spool.FILE).unlink()
    monkeypatch.setattr(spool, "now_s", lambda: 200.0)
    spool.note(tmp_path, "slurm-prolog", FIT)
    assert lines(tmp_path)[0]["sequence"] == 200


def test_hooks_that_end_at_once_lose_no_line(tmp_path):
    code = (
        "import sys; from pathlib import Path; from nodegate.hook import spool; from nodegate.hook.hooks import *\n"
        f"for _ in range(40): spool.note(Path({str(tmp_path)!r}), 'slurm-epilog', HookResult(0, 'fit: x'))"
    )
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    assert [each.wait(timeout=120) for each in running] == [0, 0, 0]
    assert len({each["sequence"] for each in lines(tmp_path)}) == 120


def full(folder):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=755", "tmpfs", folder], check=True)
    spool.note(folder, "slurm-prolog", FIT)
    with (folder / spool.FILE).open("ab") as file:
        file.write(b"\n" * (4096 - file.tell()))  # to the end of its page
    room = os.statvfs(folder)
    (folder / "other").write_bytes(b"x" * (room.f_bavail * room.f_bsize))


def read_only(folder):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro,mode=755", "tmpfs", folder], check=True)


@pytest.fixture
def state(tmp_path):
    folder = tmp_path / "state"
    folder.mkdir()
    yield folder
    if folder.is_mount():
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(full, marks=NEEDS_ROOT),
        pytest.param(read_only, marks=NEEDS_ROOT),
        lambda folder: (folder.rmdir(), folder.write_text("")),
        lambda folder: folder.chmod(0o777),
        lambda folder: os.mkfifo(folder / spool.FILE),
        lambda folder: (folder / spool.FILE).symlink_to("/etc/hostname"),
        lambda folder: ((folder / spool.FILE).touch(), (folder / spool.FILE).chmod(0o666)),
    ],
    ids=["full", "read-only", "no-folder", "others-write", "fifo", "link", "others-write-it"],
)
def test_a_spool_that_cannot_be_written_changes_no_exit(state, monkeypatch, spoil):
    spoil(state)
    held = (state / spool.FILE).stat().st_size if (state / spool.FILE).is_file() else 0
    monkeypatch.setattr(current_verdict, "answer", lambda *_, **__: LOST)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("nodegate.scheduler.programs.USUAL", "")
    with pytest.raises(OSError):
        spool.note(state, "slurm-prolog", UNFIT)
    good = cli.main(["hook", "slurm-prolog", "--state", str(state.with_name("good"))])
    assert cli.main(["hook", "slurm-prolog", "--state", str(state)]) == good
    assert len(lines(state.with_name("good"))) == 1
    if (state / spool.FILE).is_file():
        assert (state / spool.FILE).stat().st_size == held


def facts_of(tree, folder):
    there = tree / "var/lib/nodegate"
    there.mkdir(parents=True, exist_ok=True)
    (there / spool.FILE).write_bytes((folder / spool.FILE).read_bytes())
    return NodeFacts(decode(run_probe(sections=["hooks"], root=tree).raw))


def test_a_run_collects_each_verdict_once(tmp_path, capsys):
    record, keys = FleetRecord(tmp_path / "reports" / "fleet.sqlite"), Keys("gpu01", placed(chassis="C0001"))
    asked = "select kind, node, part, text from events order by kind, id"
    for run, results in enumerate([[FIT, BUSY, FIT, UNFIT, BUSY, UNFIT], [UNFIT, FIT, BUSY, FIT], []]):
        for result in results:
            spool.note(tmp_path, "slurm-prolog", result)
        found = list(hook_events(facts_of(tmp_path / "node", tmp_path), keys))
        for again in range(2):
            keep_run(record, f"run {run} {again}", float(run), {"gpu01": []}, events=found)
    want = [
        ("hook", "gpu01", "S/N C0001", "slurm-prolog: unfit: GPU 3: lost; drained"),
        ("hook", "gpu01", "S/N C0001", "slurm-prolog: fit: 77 checks passed"),
        ("hook_fit", "gpu01", "S/N C0001", "4"),
    ]
    with database.reading(record.file) as base:
        assert base.execute(asked).fetchall() == want
    assert cli.main(["history", "gpu01", "--record", str(record.file)]) == 0
    said = capsys.readouterr().out
    assert "hooks found it fit 4 times" in said
    assert "hook: slurm-prolog: unfit: GPU 3: lost; drained" in said
    record.file.unlink()  # what their nodes drop is in events.jsonl
    with database.writing(record.file) as base:
        events.keep(base, (each for each in events.read(record.file) if not isinstance(each, int)))
        assert base.execute(asked).fetchall() == want


@pytest.mark.parametrize(
    ("runs", "told"),  # when each was, the oldest verdict then, how many were dropped, how many lines are none
    [
        ([(100, 50, 3, 0), (150, 60, 3, 0)], [("hook_dropped", "3")]),  # before the first run
        ([(100, 90, 0, 0), (200, 95, 9, 0)], []),  # the first run has them
        ([(100, 90, 0, 0), (200, 150, 9, 0)], [("hook_dropped", "9")]),
        ([(100, 90, 0, 2), (200, 90, 0, 2)], [("hook_unread", "2")]),
    ],
)
def test_what_no_run_has_or_can_read_is_told_once(tmp_path, capsys, runs, told):
    record, keys = FleetRecord(tmp_path / "fleet.sqlite"), Keys("gpu01")
    for at_s, oldest_s, dropped, unread in runs:
        lines_of = [json.dumps({"schema": hooks.SCHEMA, "dropped": dropped}), *["?"] * unread]
        spooled = "\n".join([*lines_of, json.dumps({**GOOD, "epoch_s": oldest_s})])
        facts = SimpleNamespace(hooks=hooks.parse({"spool": spooled}), host=SimpleNamespace(clock_epoch_s=at_s))
        found = list(hook_events(facts, keys))
        keep_run(record, f"run {at_s}", float(at_s), {"gpu01": []}, events=found)
    with database.reading(record.file) as base:
        asked = "select kind, text from events where kind in ('hook_dropped', 'hook_unread')"
        assert base.execute(asked).fetchall() == told
    assert cli.main(["history", "gpu01", "--record", str(record.file)]) == 0
    said = capsys.readouterr().out
    assert ("had dropped" in said, "could not be read" in said) == ("dropped" in str(told), "unread" in str(told))


GOOD = {"epoch_s": 1.8e9, "boot_id": "b", "sequence": 1, "hook": "slurm-prolog", "answer": "fit", "exit": 0}
GOOD |= {"line": "fit: x", "done": "", "causes": [], "demands": ""}


@pytest.mark.parametrize(
    "line",
    [
        *(json.dumps({key: value for key, value in GOOD.items() if key != left_out}) for left_out in GOOD),
        *(json.dumps({**GOOD, "epoch_s": each}) for each in (-1, 1e12, "now", None, float("nan"))),
        *(json.dumps({**GOOD, "sequence": each}) for each in (-1, 1.5, True, 1 << 80)),
        *(json.dumps({**GOOD, "answer": each}) for each in ("healthy", "", 0, ["fit"])),
        json.dumps({**GOOD, "causes": "gpu_lost"}),
        json.dumps(GOOD)[:-1],
        json.dumps(GOOD)[:-1] + ', "exit": 1}',  # a key twice
        *("[]", "null", "[" * 9000, "\x1b[31m", "\u2028"),
    ],
)
def test_a_line_that_is_no_verdict_is_counted_and_not_believed(line):
    found = hooks.parse({"spool": f"{line}\n{json.dumps(GOOD)}\n", "gate": False})
    assert not isinstance(found.verdicts, hooks.Unknown)
    assert (len(found.verdicts), found.unread > 0) == (1, True)


def test_a_spool_that_others_can_write_is_not_read(tmp_path):
    folder = tmp_path / "var/lib/nodegate"
    spool_of = folder / spool.FILE
    folder.mkdir(parents=True)
    spool_of.write_text(json.dumps(GOOD) + "\n")
    for spoil, why in ((lambda: spool_of.chmod(0o666), "denied"), (spool_of.unlink, "missing")):
        spoil()
        data = run_probe(sections=["hooks"], root=tmp_path).data("hooks")
        assert data["spool"]["why"] == why
    assert hooks.parse(data).verdicts == ()


@pytest.mark.parametrize(
    ("conf", "gate"),
    [("gate = on\n", True), ("export NODEGATE_GATE='on'\r\nmode=observe", True), ("# gate = on\ngate = off\n", False)],
)
def test_whether_the_gate_is_asked_for(tmp_path, conf, gate):
    (tmp_path / "etc/nodegate").mkdir(parents=True)
    (tmp_path / "etc/nodegate/hooks.conf").write_text(conf)
    assert hooks.parse(run_probe(sections=["hooks"], root=tmp_path).data("hooks")).gate is gate
