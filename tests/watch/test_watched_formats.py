"""Each framework's log in each state: healthy, slow, silent, restarted, truncated, empty."""

import pytest
from support.training_logs import FORMATS, lines, times

from nodegate.watch.answer import State
from nodegate.watch.formats import FORMATS as READERS
from nodegate.watch.lines import LineSplitter
from nodegate.watch.own_pattern import OwnPattern
from nodegate.watch.watcher import Watcher

EVERY = pytest.mark.parametrize("form", FORMATS, ids=[form.write.__name__ for form in FORMATS])


def watcher(form):
    return Watcher(formats={"pattern": OwnPattern(form.pattern)} if form.pattern else READERS)


def watched(form, text):
    watching = watcher(form)
    for line in lines(text):
        watching.line(line)
    watching.end()
    return watching


@EVERY
def test_silent(form):
    watching = watched(form, form.write(times(100, form.usual_s))[: -len("}|]\n")])
    limit_s = watching._silence.limit_s()
    assert watching.idle(limit_s - 1) == []
    (silent,) = watching.idle(limit_s + 12)
    assert silent.line.startswith(
        f"No new line for {limit_s + 12:.0f} s (limit {limit_s:.0f} s) - the log is silent after"
    )
    assert watching.idle(limit_s + 13) == []
    assert watching.answer().state is State.SILENT


@EVERY
def test_restarted_from_a_checkpoint(form):
    before, again = form.write(times(400, form.usual_s)), times(300, form.usual_s, seed=3)
    for warm_up in ([], [30 * form.usual_s] * 8):
        log = f"{before}\n{form.write([*warm_up, *again])}"
        answer = watched(form, log).answer()
        assert answer.state is State.HEALTHY, answer.reason
        assert len(answer.restarts) == 1


@EVERY
def test_slow_from_a_restart_on_is_slow(form):
    """What is usual stays known over a restart: a job that comes back on a worse node is found."""
    text = form.write(times(400, form.usual_s)) + "\n" + form.write(times(300, form.usual_s * 1.5, seed=3))
    assert watched(form, text).answer().state is State.SLOW


@EVERY
def test_cut_anywhere_in_its_last_line_no_number_is_read_in_part(form):
    whole = form.write(times(30, form.usual_s))
    whole_points = watched(form, whole).curve.buckets
    highest = max(bucket.high for bucket in whole_points) if whole_points else 0
    lowest = min(bucket.low for bucket in whole_points) if whole_points else 0
    for cut in range(1, 200):
        splitter, watching = LineSplitter(), watcher(form)
        for line in [*splitter.feed(whole[:-cut].encode()), *splitter.end()]:
            watching.line(line)
        for bucket in watching.curve.buckets:
            assert lowest * 0.99 <= bucket.low <= bucket.high <= highest * 1.01


@pytest.mark.parametrize(
    ("count", "reason"), [(0, "no iteration in a known form"), (12, "too few to know what is usual")]
)
@EVERY
def test_no_lines_or_too_few_are_not_called_healthy(form, count, reason):
    answer = watched(form, form.write(times(count, form.usual_s)) if count else "").answer()
    assert (answer.state, answer.exit) == (State.NOT_JUDGED, 2)
    assert reason in answer.reason
