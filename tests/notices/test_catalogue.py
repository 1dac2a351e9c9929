"""The catalogue is complete, and what is read is what was written."""

import os
import re

import pytest
from support import catalogue

from nodegate.words.catalogue import words

GLOSSARY = catalogue.ROOT / "docs" / "reference" / "glossary.md"
PO = catalogue.read((catalogue.FOLDER / "nodegate.po").read_text("utf-8"))


@pytest.mark.long
def test_each_sentence_of_the_code_has_its_chinese_and_no_other_is_there():
    asked = set(catalogue.asked_for())
    assert len(asked) > 1000
    assert asked - set(PO) == set()
    assert [key for key in set(PO) - asked - {("",)} if not catalogue.formed().fullmatch(key[0])] == []


def test_a_chinese_sentence_is_chinese_and_has_the_same_fields():
    for key, text in PO.items():
        if key != ("",):
            assert re.search("[\u3000-\u9fff\uff00-\uffef]", text), key
            assert [set(re.findall(r"\{(\w+)", each)) for each in key] == [set(re.findall(r"\{(\w+)", text))] * len(key)


def test_the_glossary_has_the_words_of_the_catalogue():
    rows = re.findall(r"^\| ([^|]+) \| ([^|]*[\u4e00-\u9fff][^|]*) \|", GLOSSARY.read_text("utf-8"), re.MULTILINE)
    pairs = [pair for words, texts in rows for pair in zip(words.split(", "), texts.split("\uff0c"), strict=True)]
    assert len(pairs) > 80
    assert [(word, text) for word, text in pairs if PO.get((word,), text) != text] == []


def test_the_compiled_catalogue_is_the_written_one():
    file, raw = catalogue.FOLDER / "nodegate.mo", catalogue.compiled(PO)
    if os.environ.get("NODEGATE_WRITE_GOLDEN"):
        file.write_bytes(raw)
    assert file.read_bytes() == raw
    for key, text in PO.items():
        zh = words("zh")._found
        assert (zh.ngettext(*key, 2) if len(key) > 1 else zh.gettext(key[0])) == text
