"""The HTML page: everything escaped, nothing loaded, nothing run."""

import pytest
from support import browser
from support.job_logs import ecc_case, write

from nodegate.cli import main
from nodegate.triage.page import page
from nodegate.triage.triage import triage

EVIL = "<script>document.title='owned'</script><img src=x onerror=alert(1)>"


def test_the_page_holds_the_answer_and_what_followed(tmp_path):
    out = tmp_path / "triage.html"
    assert main(["triage", str(ecc_case(tmp_path / "logs")), "--html", str(out)]) == 0
    text = out.read_text()
    assert "hardware: move the job off gpu08 because" in text
    assert "What followed" in text
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text


@pytest.mark.parametrize("language", ["en", "zh"])
def test_hostile_lines_are_text(tmp_path, language):
    write(tmp_path, "rank3.log", f"ValueError: {EVIL}", f"RuntimeError: {EVIL} \x1b[31m \u202e")
    text = page(triage([str(tmp_path)], now_s=1.8e9), language)
    assert "<script>document" not in text
    assert "<img" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_browser_shows_it_without_a_complaint(tmp_path):
    try:
        browser.chromium()
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    write(tmp_path, "rank3.log", f"ValueError: {EVIL}")
    out = tmp_path / "triage.html"
    assert main(["triage", str(tmp_path), "--html", str(out)]) == 0
    assert browser.console(out) == []
    assert "<title>nothing here speaks against a node" in browser.dump_dom(out)


def test_text_output_shows_no_control_characters(tmp_path, capsys):
    write(tmp_path, "rank3.log", "ValueError: \x1b[2J\x07 \u202e evil")
    assert main(["triage", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_a_page_that_cannot_be_written_is_exit_2(tmp_path, capsys):
    write(tmp_path, "rank3.log", "ValueError: x")
    assert main(["triage", str(tmp_path), "--html", str(tmp_path / "no" / "such.html")]) == 2
    assert "cannot be written" in capsys.readouterr().err
