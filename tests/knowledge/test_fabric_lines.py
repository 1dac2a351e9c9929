"""The errors of the fabric manager's log: each row finds its own line, in both languages, and none is slow to read."""

from hypothesis import given
from hypothesis import strategies as st

from nodegate.knowledge.tables import fabric_lines
from nodegate.profile import Profile
from nodegate.records.verdict import Verdict
from nodegate.subjects import fabric_log
from nodegate.tools import fabric_manager
from nodegate.tools.fabric_manager import Entry
from nodegate.verdicts import Verdicts


def test_the_rule_is_the_first_that_fits_its_own_example(subtests):
    for rule in fabric_lines():
        with subtests.test(rule.id):
            problem = fabric_log.problem_of(Entry("Nov 20 2026 03:12:09", "ERROR", rule.example), Profile.DELIVERY)
            assert problem is not None
            assert problem.code == rule.id.replace("_", " ")
            assert any(held in rule.example for held in rule.holds)


def test_the_same_words_as_information_are_no_error(subtests):
    for rule in fabric_lines():
        with subtests.test(rule.id):
            assert fabric_log.problem_of(Entry("Nov 20 2026 03:12:09", "INFO", rule.example), Profile.DELIVERY) is None


@given(st.text(max_size=400), st.sampled_from(["INFO", "ERROR", "CRITICAL"]))
def test_no_entry_breaks_it(message, level):
    verdicts = Verdicts()
    fabric_log.judge_entries([Entry("Foo 99 2026 03:12:09", level, message)], 0.0, Profile.DELIVERY, verdicts)
    assert verdicts.findings
    assert verdicts.verdict in set(Verdict)


def test_zeros_and_broken_characters_inside_an_entry_are_shown_and_harm_nothing():
    raw = b"[Nov 20 2026 03:12:09] [ERROR] [tid 1] failed \x00\xff\xfe NVLink \x1b[2J training\n"
    (entry,) = fabric_manager.parse_log(raw.decode("utf-8", "replace"))
    assert entry.level == "ERROR"
    assert "\x00" not in entry.message
    assert "\x1b" not in entry.message
