"""Texts that a pattern fits: one for each of its alternatives, at every depth."""

import sys
from itertools import islice

if sys.version_info >= (3, 11):
    import re._constants as op
    import re._parser as parser
else:
    import sre_constants as op
    import sre_parse as parser


_MOST = 400  # texts of one pattern
_OF_CATEGORY = {op.CATEGORY_DIGIT: "7", op.CATEGORY_WORD: "w", op.CATEGORY_SPACE: " ", op.CATEGORY_NOT_SPACE: "x"}


def alternatives(pattern):
    """Texts of a pattern. Optional parts are left out, repeated ones stand as often as they must."""
    found = list(islice(_texts(list(parser.parse(pattern.pattern))), _MOST))
    return [text for text in found if pattern.search(text)]


def _texts(parts):
    if not parts:
        yield ""
        return
    for start in _of_part(*parts[0]):
        for rest in _texts(parts[1:]):
            yield start + rest


def _of_part(kind, value):
    if kind is op.LITERAL:
        yield chr(value)
    elif kind is op.IN:
        yield _of_set(value)
    elif kind in (op.ANY, op.NOT_LITERAL):
        yield "~"
    elif kind is op.BRANCH:
        for branch in value[1]:
            yield from _texts(list(branch))
    elif kind is op.SUBPATTERN:
        yield from _texts(list(value[3]))
    elif kind in (op.MAX_REPEAT, op.MIN_REPEAT):
        for each in _texts(list(value[2])):
            yield each * value[0]
            if not value[0]:
                return
    else:
        yield ""


def _of_set(parts):
    if parts[0][0] is op.NEGATE:
        return next(letter for letter in "~x7 " if not any(_in(letter, *part) for part in parts[1:]))
    kind, value = parts[0]
    return chr(value) if kind is op.LITERAL else chr(value[0]) if kind is op.RANGE else _OF_CATEGORY[value]


def _in(letter, kind, value):
    if kind is op.LITERAL:
        return letter == chr(value)
    if kind is op.RANGE:
        return bool(value[0] <= ord(letter) <= value[1])
    return {op.CATEGORY_DIGIT: letter.isdigit(), op.CATEGORY_SPACE: letter.isspace()}.get(value, letter.isalnum())
