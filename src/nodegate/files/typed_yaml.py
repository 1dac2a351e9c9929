"""What the readers of nodegate's YAML files ask of a value; each complaint has its file and line."""

import math
from collections.abc import Collection, Mapping

from nodegate.files.strict_yaml import Loaded, dotted

Path = tuple[object, ...]  # of keys and places, from the top of the file


def mapping(
    loaded: Loaded, path: Path, value: object, what: str, words: Collection[str] | None = None, *, hint: str = ""
) -> dict[str, object]:
    """A mapping of names, of no others than `words` where they are given; `what` it should be."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise loaded.wrong(f"{what} must be a mapping of names", path, hint)
    for word in value if words is not None else ():
        if word not in (words or ()):
            raise loaded.unknown_key((*path, word), words or ())
    return value


def names(loaded: Loaded, path: Path, value: object, *, what: str = "names", hint: str = "") -> tuple[str, ...]:
    """A list of texts, none of them empty."""
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise loaded.wrong(f"{path[-1]} must be a list of {what}", path, hint)
    return tuple(value)


def text(loaded: Loaded, path: Path, value: object) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise loaded.wrong(f"{path[-1]} must be some text", path)
    return value


class Reader:
    """The strict reader of one file. `page` says more; `text_hint` is said where a text is missing."""

    page = text_hint = ""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded

    def mapping(self, path: tuple[str, ...], what: str, words: Collection[str] | None = None) -> dict[str, object]:
        """The mapping at this place."""
        found = self.loaded.value
        for step in path:
            found = found.get(step) if isinstance(found, dict) else None
        return mapping(self.loaded, path, found, path[-1] if path and not what else what, words, hint=self.page)

    def text(self, found: Mapping[str, object], word: str, path: Path, *, empty: bool = False) -> str:
        """A text of a mapping; an empty one only where that is allowed."""
        value = found.get(word)
        if not isinstance(value, str) or not (value.strip() or empty):
            where = (*path, word) if word in found else path
            whose = dotted(path) or "the file"
            raise self.loaded.wrong(f"{whose} needs {word}: some text", where, self.text_hint or self.page)
        return value

    def number(self, found: Mapping[str, object], word: str, path: Path) -> float:
        """A number of a mapping, whole or not."""
        value = found[word]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise self.loaded.wrong(f"{word} must be a number, not {value!r}", (*path, word))
        return value
