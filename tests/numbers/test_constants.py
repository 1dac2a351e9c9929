"""Each constant of the methods is in the table of docs/reference/statistics.md, with the value that it has."""

import ast
import importlib
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| `(\w+\.\w+)` \| ([^|]+) \| [^|]+ \| [^|]+ \|$", re.MULTILINE)


def held():
    """The numbers that stand at the head of the files of numbers/."""
    found: dict[str, object] = {}
    for file in (ROOT / "src/nodegate/numbers").glob("*.py"):
        module = importlib.import_module(f"nodegate.numbers.{file.stem}")
        for each in ast.parse(file.read_text()).body:
            names = [name.id for name in ast.walk(each) if isinstance(name, ast.Name) and isinstance(each, ast.Assign)]
            for name in filter(str.isupper, names):
                value = getattr(module, name, None)
                if isinstance(value, (int, float)) or (isinstance(value, tuple) and isinstance(value[0], (int, float))):
                    found[f"{file.stem}.{name}"] = value
    return found


def test_each_is_in_the_table_with_its_value():
    told = dict(ROW.findall((ROOT / "docs/reference/statistics.md").read_text()))
    constants = held()
    assert told.keys() == constants.keys()
    numbers = {name: value for name, value in constants.items() if not isinstance(value, tuple)}
    assert len(numbers) > 50
    for name, value in numbers.items():
        above, _, below = told[name].partition("/")
        assert float(above) / float(below or 1) == value, name
