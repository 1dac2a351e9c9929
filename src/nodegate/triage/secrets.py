"""Secrets in a line of a job log, mostly of a command line: tokens, passwords and keys are hidden."""

import re

HIDDEN = "[hidden]"
_LONGEST = 4000  # characters of a line that are looked at, and kept
# The last words of a name whose value is a secret. Models have tokens too (eos_token, num_tokens): those stay.
_NAME = (
    r"(?:pass(?:word|wd|phrase)|secret(?:[_-]?key)?|credentials?|(?:api|access|private|auth|account|license)[_-]?key"
    r"|(?:hf|hub|auth|access|api|bearer|session|refresh|github|gitlab|wandb|user|huggingface)[_-]?token)"
)
_VALUE = r"""(?:"[^"]{1,1000}"|'[^']{1,1000}'|[^\s"',;)\]}]{1,1000})"""
_ASSIGNED = re.compile(rf"""(?i)(?P<name>{_NAME}["']?\s{{0,3}}[=:]\s{{0,3}})(?P<value>{_VALUE})""")
_OPTION = re.compile(rf"(?i)(?P<name>(?<!\S)--?[\w-]{{0,60}}(?:{_NAME}|[_-]token)(?:=|\s{{1,3}}))(?P<value>{_VALUE})")
_HEADER = re.compile(r"(?i)(?P<name>\b(?:bearer|basic)\s{1,3})(?P<value>(?=\S{0,999}\d)[\w.~+/=-]{16,1000})")
_IN_AN_ADDRESS = re.compile(r"(?P<name>\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,200}:)(?P<value>[^\s/@]{1,200})(?=@)")
_OF_A_FORM = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
    r"|xox[abprs]-[\w-]{8,}|A(?:KIA|SIA)[0-9A-Z]{16}|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]{4,})?|nvapi-[\w-]{16,})"
)


def without_secrets(text: str) -> str:
    """The text, in which values of what is named a secret, and what has the form of a known token, are hidden."""
    text = text[:_LONGEST]
    for pattern in (_ASSIGNED, _OPTION, _HEADER, _IN_AN_ADDRESS):
        text = pattern.sub(lambda match: f"{match['name']}{HIDDEN}", text)
    return _OF_A_FORM.sub(HIDDEN, text)
