"""Job logs with secrets in them."""

import json
from pathlib import Path

import pytest

from nodegate.cli import main
from nodegate.triage.secrets import HIDDEN, without_secrets

TOKEN = "hf_" + "aB3dE5fG7hI9jK1lM3nO"
FAILED = (
    "[rank0]: RuntimeError: command failed: python train.py --hf-token {token} --password=hunter22 "
    "--db postgres://bob:s3cr3t@db/x CUDA error: uncorrectable ECC error encountered\n"
)


def test_secrets_of_a_job_log_are_not_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
def test_a_secret_is_hidden_in_every_form(text: str) -> None:
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
def test_what_is_no_secret_stays(text: str) -> None:
    assert without_secrets(text) == text
