"""Options that are refused, servers that do not answer, logs beside, nodes by Slurm, following: without a server."""

import json
import sys

import pytest
from support.schemas import read_output

from nodegate.cli import main
from nodegate.job.answer import Answer, decided
from nodegate.job.command import follow
from nodegate.job.finding import Class, Finding
from nodegate.job.queries import Job, queries
from nodegate.job.slurm import nodes_of
from nodegate.notices.target import parse_all

URL = "http://127.0.0.1:9"  # discard: nothing listens


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("--prometheus http://u:secret@h:9090 --nodes a", "--token-file"),
        ("--prometheus http://h:9090/?token=secret --nodes a", "--token-file"),
        ("--prometheus ftp://h --nodes a", "not an http"),
        (f"--prometheus {URL} --nodes a --at yesterday", "--at is not a time"),
        (f"--prometheus {URL} --nodes a --since 10s", "--since is not a span"),
        (f"--prometheus {URL} --nodes a[1", "bracket"),
        (f"--prometheus {URL} --pods (", "not a regular expression"),
        (f"--prometheus {URL} --pods .*", "empty name"),
        (f"--prometheus {URL} --slurm-job x;y", "not the number"),
        (f"--prometheus {URL} --nodes a --notice true", "give --follow"),
        ("--replay . --nodes a --follow", "give --prometheus"),
        ("--replay /absent --nodes a", "not a folder"),
    ],
)
def test_a_wrong_option_is_one_clear_line(given, said, capsys):
    assert main(["job", *given.split()]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert "secret" not in shown
    assert shown.count("\n") == 1


def test_a_server_that_does_not_answer_is_an_answer(capsys):
    assert main(["job", "--prometheus", URL, "--nodes", "a", "--json"]) == 2
    answer = read_output(capsys.readouterr().out)
    assert (answer["class"], answer["where"], answer["since"]) == ("cannot-tell", [], None)
    assert "does not answer" in answer["why"][0]


def test_requests_are_at_most_eleven_and_escape_what_is_given():
    asked = queries(Job(0, 1800, pods='a"} or vector(1) or x{y="'))
    assert len(asked) <= 11
    assert all('a\\"} or vector(1)' in each.expression for each in asked[:8])
    assert len(queries(Job(0, 3600, tuple(f"n{each}" for each in range(1250))))) <= 11


@pytest.mark.parametrize(
    "values", ['[[1,"x"]]', '[[1,"2"],[3]]', '[[1,"2",4]]', '[["1","2"]]', '"1"', "[[1,2]]", '[[1,"ü"]]']
)
def test_samples_that_are_no_numbers_are_said(tmp_path, values, capsys):
    """Hostile or broken answers of a server: cannot tell, in one line; NaN and infinity are no samples."""
    at = 1_790_000_000
    for query in queries(Job(at, 1800, ("a",))):
        given = values if query.name == "power" else f'[[{at},"NaN"],[{at},"+Inf"]]'
        row = f'{{"metric":{{"instance":"a:9400","gpu":"0"}},"values":{given}}}'
        rows = f"[{row}]" if "step" in query.at else "[]"
        (tmp_path / query.file).write_text(f'{{"status":"success","data":{{"resultType":"matrix","result":{rows}}}}}')
    assert main(["job", "--replay", str(tmp_path), "--nodes", "a", "--at", "2026-09-21T14:13:20Z", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["why"] == ["an answer has samples that are not pairs of numbers"]


HANG = Answer(Finding(Class.HANG, (), 1_790_000_000.0))
GONE = Answer(Finding(Class.HEALTHY), ended=True)


def test_following_prints_a_change_that_held_for_two_looks_and_ends_with_the_job(monkeypatch, tmp_path):
    monkeypatch.setattr("nodegate.job.command.EVERY_S", 0.01)
    script = f"import sys; open({str(tmp_path / 'got')!r}, 'a').write(sys.stdin.read())"
    targets = parse_all([f'{sys.executable} -c "{script}"'])
    good = Answer(Finding(Class.HEALTHY))
    looks, shown = iter([good, good, HANG, good, good, HANG, HANG, HANG, GONE, GONE]), []
    assert follow(lambda: next(looks), lambda answer: shown.append(answer.kind) or shown[-1].value, targets) == 0  # type: ignore[func-returns-value]
    assert shown == [Class.HEALTHY, Class.HANG, Class.HEALTHY]
    assert (tmp_path / "got").read_text().split() == [each.value for each in shown]


def test_a_log_with_a_first_error_decides_class_and_place(tmp_path):
    log = tmp_path / "gpu007" / "rank_12.log"
    log.parent.mkdir()
    log.write_text(
        "[gpu007:rank12]: 2026-09-21 14:13:20 torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.38 GiB\n"
    )
    said = decided(HANG, [str(log)], ("gpu007",))
    assert said.kind is Class.RANK_GONE
    assert said.finding.where[0].node == "gpu007"
    assert "2026-09-21T14:13:20Z" in said.finding.why[1].en
    log.write_text("iteration 1\n")
    assert decided(HANG, [str(log)]).kind is Class.HANG


def test_nodes_of_a_slurm_job_come_from_squeue_and_are_kept(tmp_path, monkeypatch):
    program = tmp_path / "squeue"
    program.write_text("#!/bin/sh\necho 'gpu[001-003].cluster'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert nodes_of("4711", kept=tmp_path, replay=None) == ("gpu001", "gpu002", "gpu003")
    program.unlink()
    assert nodes_of("4711", kept=None, replay=tmp_path) == ("gpu001", "gpu002", "gpu003")
    assert nodes_of("4711", kept=None, replay=None) == ()
