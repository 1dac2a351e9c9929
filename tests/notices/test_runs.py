"""Real runs of recorded nodes with --notice, and the commands that send: what arrives, and that no secret is kept."""

import sys
from pathlib import Path

import pytest
from support import warm
from support.notice_servers import SECRET, TOKEN, Server, serving
from support.recorded import run_pytest
from support.training_logs import megatron, slowed

ROOT = Path(__file__).parents[2]
CANARY = "canary-7c1e"
RUN = [str(ROOT / "checks"), "-k", "xid", "--nodes", "hgx01,hgx03", "-p", "no:cacheprovider", "-q"]
LIVE = [*RUN, "--inventory", str(ROOT / "inventory" / "demo.yaml")]


@pytest.fixture(scope="module")
def server():
    with serving(Server()) as found:
        yield found


@pytest.fixture(scope="module")
def first(server, tmp_path_factory):
    """The folder in which a run was made, its outcome, and what the server was sent."""
    where = tmp_path_factory.mktemp("site")
    notice = f"webhook:{server.url}\nAuthorization: Bearer {SECRET}"
    outcome = run_pytest(where, [*LIVE, "--run-dir", "reports/one", "--notice", notice])
    got = [*server.got]
    server.got.clear()
    return where, outcome, got


@pytest.fixture
def site(first, server):
    server.got.clear()
    return first[0]


def command(where, *arguments):
    given = [sys.executable, "-m", "nodegate.cli", *arguments]
    return warm.run(given, cwd=where, capture_output=True, text=True, timeout=120, check=False)


def test_a_run_of_recorded_nodes_is_sent(first):
    _, outcome, (got,) = first
    assert outcome.exit_code == 1
    assert got.headers["Authorization"] == f"Bearer {SECRET}"
    said = got.json
    assert (said["run"], said["entrance"], said["profile"], said["result"]) == ("one", "pytest", "delivery", "rejected")
    assert [(each["node"], each["part"], each["severity"]) for each in said["new"]] == [("hgx03", "GPU 3", "lost")]
    assert "note: --notice webhook: others see secrets in arguments" in outcome.stdout


def test_no_file_and_no_line_of_a_run_has_a_secret(first):
    where, outcome, _ = first
    files = [file for file in where.rglob("*") if file.is_file()]
    assert any(b"--notice webhook:..." in file.read_bytes() for file in files)
    for secret in (SECRET, TOKEN):
        assert [file for file in files if secret.encode() in file.read_bytes()] == []
        assert secret not in outcome.stdout + outcome.stderr


@pytest.mark.long
def test_no_process_of_a_run_has_a_secret_that_a_variable_or_a_file_holds(server, tmp_path):
    """A program that is started in the run looks at each process's arguments, and at its own environment."""
    kept, spy = tmp_path / "hook", tmp_path / "spy"
    kept.write_text(f"{server.url}/kept\nAuthorization: Bearer {CANARY}file\n")
    kept.chmod(0o600)
    spy.write_text("#!/bin/sh\ncat /proc/self/environ /proc/[0-9]*/cmdline >seen 2>/dev/null\ncat >/dev/null\n")
    spy.chmod(0o755)
    hook = f"{server.url}/shown\nAuthorization: Bearer {CANARY}variable"
    given = ["--notice", "webhook:$HOOK", "--notice", f"webhook:@{kept}", "--notice", str(spy), "-n", "2"]
    outcome = run_pytest(tmp_path, [*LIVE, *given], cold=True, HOOK=hook)
    assert outcome.exit_code == 1, outcome.stdout
    assert {got.headers["Authorization"] for got in server.got} == {
        f"Bearer {CANARY}{of}" for of in ("file", "variable")
    }
    seen = (tmp_path / "seen").read_bytes()
    assert b"webhook:$HOOK" in seen
    files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file() and file != kept]
    assert not any(CANARY.encode() in each for each in [seen, outcome.stdout.encode(), outcome.stderr.encode(), *files])
    server.got.clear()


def test_the_same_again_is_not_sent_and_workers_send_once(site, server):
    again = ["--notice", f"webhook:{server.url}", "--notice", f"webhook:{server.url}/more"]
    outcome = run_pytest(site, [*LIVE, "-n", "2", "--lang", "zh", *again])
    assert outcome.exit_code == 1
    (got,) = server.got
    assert got.path.endswith("/more")
    assert "新增问题" in got.json["text"]


def test_a_replay_is_not_sent(site, server):
    new = f"webhook:{server.url}/replayed"
    assert run_pytest(site, [*RUN, "--replay", "reports/one", "--run-dir", "two", "--notice", new]).exit_code == 1
    assert server.got == []
    said = command(site, "notify", "two", "--to", new)
    assert (said.returncode, said.stderr.splitlines()[-1][:58]) == (
        2,
        "nodegate: two: this run judged the evidence of another one",
    )


def test_a_target_that_is_down_changes_no_exit_code(site):
    with serving(Server()) as gone:
        pass
    outcome = run_pytest(site, [*LIVE, "--run-dir", "three", "--notice", f"webhook:{gone.url}"])
    assert outcome.exit_code == 1
    assert "note: notice was not sent: webhook:127.0.0.1#" in outcome.stdout
    assert TOKEN not in outcome.stdout


def test_a_target_that_cannot_be_used_is_refused_before_anything_is_measured(site):
    outcome = run_pytest(site, [*LIVE, "--run-dir", "four", "--notice", f"webhook:https:/{TOKEN}"])
    assert outcome.exit_code == 4
    assert "--notice webhook: its address does not begin with http" in outcome.stderr
    assert TOKEN not in outcome.stdout + outcome.stderr
    assert not (site / "four").exists()


def test_notify_sends_the_same(site, server, monkeypatch):
    monkeypatch.setenv("CHAT", f"{server.url}/notify")
    for more, sent in (([], 1), ([], 0), (["--all", "--lang", "zh"], 1), (["--record", "elsewhere.sqlite"], 1)):
        said = command(site, "notify", "reports/one", "--to", "webhook:$CHAT", *more)
        assert (said.returncode, said.stdout, said.stderr) == (0, "", "")
        assert len(server.got) == sent
        assert [each.json["counts"]["new"] for each in server.got] == [1] * sent
        server.got.clear()


def test_notify_of_a_folder_without_a_run(site, server):
    said = command(site, "notify", "nowhere", "--to", f"slack:{server.url}")
    assert said.returncode == 2
    assert "nowhere/report.json: cannot be read" in said.stderr
    assert (command(site, "notify", "reports/one").returncode, server.got) == (2, [])


def test_a_watch_sends_its_finding_to_each_target(site, server):
    log, got = site / "train.log", site / "got"
    log.write_text(megatron(slowed([2.0] * 200, 100, 1.5)))
    script = f"import sys; open({str(got)!r}, 'a').write(sys.stdin.read())"
    targets = ["--notice", f'{sys.executable} -c "{script}"', "--notice", f"webhook:{server.url}"]
    done = command(site, "watch", str(log), "--once", *targets)
    assert done.returncode == 1
    (sent,) = server.got
    assert sent.json["entrance"] == "watch"
    assert sent.json["text"].startswith("Smoothed mean (iters 10")
    assert got.read_text() == sent.json["text"] + "\n"
    assert "others see secrets" in done.stderr
    assert TOKEN not in done.stderr
