"""`nodegate hook`: one line, an exit code that Slurm understands, and no fault of ours that stops work."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nodegate import cli
from nodegate.exit_codes import Exit
from nodegate.hook import current_verdict, hooks, passed
from nodegate.hook.current_verdict import Answer


@pytest.fixture(autouse=True)
def own_path(monkeypatch, tmp_path):
    """A hook adds folders to the PATH of its process, and notes what it found in a folder of the machine."""
    monkeypatch.setenv("PATH", os.environ["PATH"])
    monkeypatch.setattr(passed, "STATE", str(tmp_path / "state"))


HOOKS = ["slurm-prolog", "slurm-epilog", "slurm-healthcheck"]


def says(monkeypatch, answer):
    def ask(*_, **__):
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(current_verdict, "answer", ask)


@pytest.mark.parametrize("hook", HOOKS)
def test_a_fit_node_is_one_line_and_0(monkeypatch, capsys, hook):
    says(monkeypatch, Answer(Exit.FIT, "fit: 77 checks passed", age_s=35.2))
    assert cli.main(["hook", hook]) == 0
    port = hooks.PORT if hook == "slurm-prolog" else ""
    assert capsys.readouterr().out == f"fit: 77 checks passed (checked 35 s ago){port}\n"


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("fault", [RuntimeError("a bug"), OSError("disk"), MemoryError(), RecursionError()])
def test_a_fault_of_ours_stops_no_work_unless_strict(monkeypatch, capsys, hook, fault):
    says(monkeypatch, fault)
    assert cli.main(["hook", hook]) == 0
    assert cli.main(["hook", hook, "--strict"]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("could not tell: nodegate failed (") for line in lines)


def test_the_line_is_one_clean_line(monkeypatch, capsys):
    says(monkeypatch, Answer(Exit.BUSY, "busy: a\nb\x1b[31m\u202ec"))
    assert cli.main(["hook", "slurm-prolog"]) == 0
    assert capsys.readouterr().out == "busy: a b\\x1b[31m\\u202ec\n"


def test_the_options_reach_the_hook(monkeypatch, tmp_path):
    heard: list[hooks.HookOptions] = []

    def hook(asked):
        heard.append(asked)
        return hooks.HookResult(0, "fit: x", is_news=False)

    monkeypatch.setitem(hooks.HOOKS, "slurm-healthcheck", hook)
    words = ["--strict", "--resume", "--fresh", "60", "--kept", "/run/x", "--baseline", "a.yaml", "--platform", "p"]
    words += ["--demands", "d.yaml"]
    assert cli.main(["hook", "slurm-healthcheck", *words, "--exclusive"]) == 0
    question = current_verdict.Question(Path("/run/x"), (Path("a.yaml"),), "p", exclusive=True, demands=Path("d.yaml"))
    assert heard == [hooks.HookOptions(question, strict=True, fresh_s=60.0, resume=True)]


def test_a_reader_that_has_gone_changes_no_exit_code(tmp_path):
    code = "import sys; from nodegate.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "hook", "slurm-prolog", "--platform", "no-such", "--kept", f"{tmp_path}/x"]
    command += ["--state", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as hook:
        assert hook.stdout is not None
        hook.stdout.close()
        assert hook.wait(timeout=60) == 0
        assert hook.stderr is not None
        assert hook.stderr.read() == b""


@pytest.mark.parametrize(
    ("hook", "own", "others"),
    [
        ("slurm-prolog", ["--fresh", "--exclusive"], ["--resume"]),
        ("slurm-epilog", ["--exclusive"], ["--resume", "--fresh"]),
        ("slurm-healthcheck", ["--resume"], ["--fresh", "--exclusive"]),
    ],
)
def test_each_hook_shows_its_own_options_and_takes_those_of_all(monkeypatch, capsys, hook, own, others):
    with pytest.raises(SystemExit):
        cli.main(["hook", hook, "--help"])
    shown = capsys.readouterr().out
    assert all(option in shown for option in [*own, "--strict", "--baseline", "--platform", "--kept"])
    assert not [option for option in others if option in shown]
    says(monkeypatch, Answer(Exit.FIT, "fit: 77 checks passed"))
    assert cli.main(["hook", hook, "--fresh", "60", "--exclusive", "--strict"]) == 0
