"""Random words in place of every sentence that nodegate makes: what is decided by one is decided otherwise then."""

import functools
import inspect
import random
import sys

import pytest

from nodegate.errors import CannotMeasure, NotApplicable, NotJudged
from nodegate.measure.program_run import ProgramRun
from nodegate.numbers.assessments import Assessment
from nodegate.numbers.comparison import Comparison
from nodegate.records.claim import Shown
from nodegate.records.finding import Finding

# Where sentences are made, and which arguments they are. What a node or a program printed is evidence and stays.
MAKERS: dict[type, tuple[str, ...]] = {
    Finding: ("text", "note", "action"),
    CannotMeasure: ("reason", "next_step"),
    ProgramRun: ("cannot", "next_step"),
    Assessment: ("note", "text"),
    Comparison: ("note", "text"),
    Shown: ("why",),
}
REFUSALS = (NotApplicable, NotJudged)  # their one argument is the reason


def replace_every_sentence(seed):
    """From now on each sentence is a new one of random words, also where two were the same; an empty one stays."""
    words = _Words(seed)
    for maker, names in MAKERS.items():
        maker.__init__ = _saying(maker.__init__, names, words)
    for refusal in REFUSALS:
        refusal.__init__ = lambda self, *_: Exception.__init__(self, words.some())


class _Words:
    def __init__(self, seed):
        self._chosen = random.Random(seed)  # noqa: S311 - words, no secret

    def some(self):
        """One to six words of small letters."""
        letters = "abcdefghijklmnopqrstuvwxyz"
        count = self._chosen.randint(1, 6)
        return " ".join("".join(self._chosen.choices(letters, k=self._chosen.randint(2, 9))) for _ in range(count))


def _saying(init, names, words):
    order = [name for name in inspect.signature(init).parameters if name != "self"]

    @functools.wraps(init)
    def said(self, *given, **named):
        whole = dict(zip(order, given, strict=False)) | named
        init(self, **{name: words.some() if name in names and each else each for name, each in whole.items()})

    return said


if __name__ == "__main__":  # SEED and the arguments of pytest: a whole run
    replace_every_sentence(int(sys.argv[1]))
    sys.exit(pytest.main(sys.argv[2:]))
