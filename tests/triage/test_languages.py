"""No Chinese answer has an English sentence. conftest.py asks this of every answer that the tests of this folder make;
here is the rule itself (support/languages.py), and that it finds what it is to find.
"""

# ruff: noqa: RUF001 - Chinese punctuation
import re
from dataclasses import replace

from support.job_logs import ecc_case
from support.languages import chinese_of, english_in, sentences

from nodegate.knowledge.words import Text
from nodegate.triage.remarks import Note
from nodegate.triage.triage import triage


def test_each_chinese_side_of_the_tables_is_chinese():
    """Three words in a row would be a clause, and they would count as terms from then on."""
    assert len(sentences()) > 300
    odd = [text.zh for text in sentences() if not re.search("[\u4e00-\u9fff]", text.zh)]
    odd += [text.zh for text in sentences() if re.search(r"(?:\b[a-z]{2,} ){2}[a-z]{2,}\b", text.zh)]
    assert odd == []


def test_a_note_that_stayed_english_is_found(tmp_path):
    found = triage([str(ecc_case(tmp_path))])
    note = Note(Text("x", "its clock names no zone"), (found.read.kernel_nodes[0],))
    said = chinese_of(replace(found, notes=(note,)))
    assert sum(text.endswith("its clock names no zone") for text in english_in(said, [])) == 2  # in text and JSON


def test_a_quoted_line_is_no_english_of_ours_and_what_is_around_it_is():
    line = "NVRM: the GPU is lost, and nothing of it can be read any more"
    assert english_in([f"内核报告：{line[:30]}…"], [line]) == []
    assert english_in([f"the kernel says：{line}"], [line]) != []
