"""The HTML page: everything escaped, nothing loaded, nothing run; and no secret of a log in any output."""

import json

import pytest
from support import browser
from support.job_logs import ecc_case, write

from nodegate.cli import main
from nodegate.triage.page import page
from nodegate.triage.secrets import HIDDEN, without_secrets
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


TOKEN = "hf_" + "aB3dE5fG7hI9jK1lM3nO"
FAILED = (
    "[rank0]: RuntimeError: command failed: python train.py --hf-token {token} --password=hunter22 "
    "--db postgres://bob:s3cr3t@db/x CUDA error: uncorrectable ECC error encountered\n"
)


def test_secrets_of_a_job_log_are_not_told(tmp_path, capsys):
    log, page = tmp_path / "rank0.log", tmp_path / "page.html"
    log.write_text(FAILED.format(token=TOKEN))
    assert main(["triage", str(log), "--html", str(page)]) == 0
    shown = capsys.readouterr().out
    assert main(["triage", str(log), "--json"]) == 0
    as_json = capsys.readouterr().out
    assert json.loads(as_json)["first_error"]["text"].count(HIDDEN) == 3
    for said in (shown, as_json, page.read_text()):
        assert "uncorrectable ECC error" in said
        for secret in (TOKEN, "hunter22", "s3cr3t"):
            assert secret not in said


@pytest.mark.parametrize(
    "text",
    [
        "export WANDB_API_KEY=0123456789abcdef0123",
        "{'api_key': '0123456789abcdef0123'}",
        "AWS_SECRET_ACCESS_KEY: 0123456789abcdef0123",
        "huggingface-cli login --token 0123456789abcdef0123",
        "Authorization: Bearer 0123456789abcdef0123",
        'password = "0123456789abcdef0123 with blanks"',
        "use_auth_token=0123456789abcdef0123",
        "https://oauth2:0123456789abcdef0123@git.example/x.git",
    ],
)
def test_a_secret_is_hidden_in_every_form(text):
    assert "0123456789" not in without_secrets(text)
    assert HIDDEN in without_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: Token IDs outside valid range",
        "eos_token='<|endoftext|>', pad_token_id=0, num_tokens=4096, tokens: 12",
        "sudo: a password is required",
        "unexpected token = at line 3",
        "torch.distributed.init_process_group(init_method='tcp://10.0.0.1:29500')",
        "basic authentication failed",
        "File https://host:8080/x@y not found",
    ],
)
def test_what_is_no_secret_stays(text):
    assert without_secrets(text) == text
