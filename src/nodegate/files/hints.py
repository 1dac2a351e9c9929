"""Hints in messages about what a person wrote: the nearest known word, and foreign text made safe."""

from collections.abc import Iterable
from difflib import get_close_matches

from nodegate.text import some


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A hint for an unknown word: the nearest known one, else the known ones (at most 12)."""
    words = sorted(known)
    near = get_close_matches(word, words, n=3, cutoff=0.7)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"known: {some(words, 12)}" if words else ""


def shown(text: str) -> str:
    """Foreign text for a message: quoted, control characters escaped, not too long."""
    return repr(text if len(text) <= 80 else text[:77] + "...")
