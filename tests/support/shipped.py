"""The baselines of the suite, for tests that need them when they are collected."""

import pytest

from nodegate.baseline import baseline_file
from nodegate.baseline.baseline import Baselines
from nodegate.errors import UsageError
from nodegate.files.paths import suite_folder


def shipped():
    """All of them. Where files contradict one another the module is skipped: one test says it, in one line."""
    try:
        return Baselines.read()
    except UsageError as wrong:
        pytest.skip(str(wrong), allow_module_level=True)


SHIPPED = shipped()
FILES = [baseline_file.read(path, path.name) for path in sorted(suite_folder("baselines").glob("*.yaml"))]
# Every measured rate, variant by variant, with the platform of its file; those with a value of their own.
RATES = [
    (file.platform, each)
    for file in FILES
    for entry in file.limits.values()
    if entry.key.endswith(("_tflops", "_gb_per_s"))
    for each in entry.variants or (entry,)
]
VALUES = [(platform, entry) for platform, entry in RATES if entry.value is not None]
