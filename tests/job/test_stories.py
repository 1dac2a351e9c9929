"""All made stories through the installed command, over HTTP, with a real Prometheus whose blocks promtool wrote."""

import datetime as dt
import json
import os
import shutil
import subprocess
import sys
import urllib.parse
import urllib.request
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest
from job.kinds import made
from job.server import fill, prometheus, victoria_metrics
from support.schemas import read_output

from deploy.prometheus import alert_rules
from nodegate.job.finding import Class

COMMAND = [sys.executable, "-m", "nodegate.cli", "job"]
SEED = 20_261_127
LEAST_RIGHT = 66  # of 68
SINCE_WITHIN_S = 150  # two collections, two scrapes and a minute of the answer
pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="Debian's package prometheus is not installed")


def _blocks(number, folder):
    fill(made(SEED, only=number)[0], folder)


def asked(url, story, *more):
    """The answer of the installed command."""
    command = [*COMMAND, "--prometheus", url, *story.options, "--json", *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert not done.stderr, done.stderr
    return done.returncode, read_output(done.stdout)


def _judged(story, code, answer):
    """What is wrong with an answer; nothing if it is right."""
    said = (answer["class"], sorted(((p["node"], p["gpu"]) for p in answer["where"]), key=str))  # type: ignore[attr-defined]
    assert code == {"healthy": 0, "cannot-tell": 2}.get(str(said[0]), 1)
    if said != (story.truth, sorted(story.where, key=str)):
        return f"{story.name}: {said}, {answer['why']}"
    told = answer["since"]
    if story.truth in ("healthy", "cannot-tell") or (told is None and story.began is None):
        return ""
    if told is None or story.began is None:
        return f"{story.name}: since {told}"
    late = dt.datetime.fromisoformat(str(told).replace("Z", "+00:00")).timestamp() - story.began
    return "" if abs(late) <= SINCE_WITHIN_S else f"{story.name}: since {late:+.0f} s"


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A server with all stories."""
    folder = tmp_path_factory.mktemp("stories")
    numbers = range(len(made(SEED)))
    with ProcessPoolExecutor(os.cpu_count() or 2) as pool:
        list(pool.map(_blocks, numbers, [folder] * len(numbers)))
    with prometheus(folder) as address:
        yield address


def _wrong(url, stories):
    with ThreadPoolExecutor(os.cpu_count() or 2) as threads:
        answers = list(threads.map(lambda story: asked(url, story), stories))
    judged = [
        (story, answer, _judged(story, code, answer)) for story, (code, answer) in zip(stories, answers, strict=True)
    ]
    return [each for each in judged if each[2]]


@pytest.mark.xdist_group("job_stories")
def test_stories_are_told_right(url):
    """At least 66 of 68; no fault and no unknown is called healthy, nobody is blamed in a healthy or unknown one."""
    stories = made(SEED)
    wrong = _wrong(url, stories)
    said = "\n".join(each[2] for each in wrong)
    assert len(stories) - len(wrong) >= LEAST_RIGHT, said
    assert not [why for story, answer, why in wrong if answer["class"] == "healthy" and story.truth != "healthy"], said
    innocent = [why for story, answer, why in wrong if story.truth in ("healthy", "cannot-tell") and answer["where"]]
    assert not innocent, said


JOB_LABELS = {"bare": "", "exported": "exported_pod", "honoured": "pod", "slurm": "hpc_job"}
EVERY_S = 60  # between two evaluations of an alert


def _fires(url, rule, story):
    """Whether an alert's expression holds for as long as it asks for, within the window of a story."""
    asked = {"query": rule["expr"], "start": story.end - 1800, "end": story.end, "step": EVERY_S}
    body = urllib.parse.urlencode(asked).encode()
    with urllib.request.urlopen(f"{url}/api/v1/query_range", body, timeout=60) as answer:  # noqa: S310 - loopback
        series = [[moment for moment, _ in row["values"]] for row in json.load(answer)["data"]["result"]]
    need = int(rule["for"].removesuffix("m")) * 60 // EVERY_S
    return any(b - a == need * EVERY_S for times in series for a, b in zip(times, times[need:], strict=False))


@pytest.mark.long
@pytest.mark.xdist_group("job_stories")
def test_each_alert_fires_on_the_stories_of_its_class_and_on_no_healthy_one(url):
    """The rules of deploy/prometheus, for the label that names jobs in a story, asked of the real Prometheus."""
    rules = {style: alert_rules.rules(label) for style, label in JOB_LABELS.items()}

    def wrong(story):
        own = "nvidia_gpu_exporter" if story.counters == "smi" else "dcgm-exporter"
        found = [each for each in rules[story.style] if each["labels"]["exporter"] in (own, "node_exporter")]
        if story.truth == "healthy":
            return [f"{story.name}: {each['alert']}" for each in found if _fires(url, each, story)]
        mine = [each for each in found if each["labels"]["nodegate_class"] == story.truth]
        return [f"{story.name}: silent"] if mine and not any(_fires(url, each, story) for each in mine) else []

    with ThreadPoolExecutor(os.cpu_count() or 2) as threads:
        said = [each for found in threads.map(wrong, made(SEED)) for each in found]
    assert said == []


@pytest.mark.long
@pytest.mark.skipif(shutil.which("victoria-metrics") is None, reason="Debian's victoria-metrics is not installed")
def test_stories_are_told_right_over_victoria_metrics(tmp_path):
    """The smallest story of each class."""
    smallest = {story.truth: story for story in sorted(made(SEED), key=lambda story: -len(story.nodes))
                if story.kind != "no-such-job"}  # fmt: skip
    assert len(smallest) == len(Class)
    with victoria_metrics(tmp_path, smallest.values()) as other:
        assert [each[2] for each in _wrong(other, list(smallest.values()))] == []


@pytest.mark.xdist_group("job_stories")
def test_a_replay_gives_the_same_bytes(tmp_path, url):
    """From the kept answers, and from those that the printed curl lines fetched."""
    story = next(each for each in made(SEED) if each.truth == "throttled" and each.style in ("exported", "bare"))
    command = [*COMMAND, *story.options, "--json"]
    live = subprocess.run(
        [*command, "--prometheus", url, "--run-dir", tmp_path / "kept"], capture_output=True, check=False
    )
    lines = subprocess.run([*command, "--prometheus", url, "--print-queries"], capture_output=True, check=True).stdout
    (tmp_path / "fetched").mkdir()
    subprocess.run(["sh", "-e"], input=lines, cwd=tmp_path / "fetched", check=True, capture_output=True, timeout=60)
    for folder in ("kept", "fetched"):
        again = subprocess.run([*command, "--replay", tmp_path / folder], capture_output=True, check=False)
        assert (again.stdout, again.returncode) == (live.stdout, 1)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.xdist_group("job_stories")
def test_the_text_names_place_and_next_command(url, language):
    """Triage's form: one sentence, where, since, why with numbers, what to do, the next command."""
    story = next(each for each in made(SEED) if each.truth == "rank-gone")
    command = [*COMMAND, "--prometheus", url, *story.options, "--lang", language]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    node, gpu = story.where[0]
    assert done.returncode == 1
    assert done.stdout.startswith("rank-gone: ")
    assert f"{node} GPU {gpu}" in done.stdout
    assert f"pytest --inventory hosts.yaml --nodes '{node}' --profile troubleshoot" in done.stdout
