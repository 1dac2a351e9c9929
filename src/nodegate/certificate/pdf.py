"""A run's certificate as PDF, printed by a Chromium that is installed."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from nodegate.certificate.page import FILES
from nodegate.errors import UsageError

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
PRINT_S = 300.0
_OPTIONS = (
    *("--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--no-pdf-header-footer"),
)


def print_pdf(run: Path, file: Path, lang: str) -> None:
    """Print the certificate of a run folder in a language.

    Raises:
        UsageError: the run has no certificate, no Chromium or no Chinese font is installed, or it cannot be written.
    """
    page = run / FILES[lang]
    if not page.is_file():
        hint = "only a run of profile delivery has one; nodegate report RUN writes it again"
        raise UsageError("no certificate", file=str(page), hint=hint)
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise UsageError("a PDF needs Chromium", hint=f"apt-get install chromium, or print {page} with a browser")
    if lang == "zh" and not _has_chinese():
        raise UsageError("no Chinese font is installed", hint="apt-get install fonts-noto-cjk")
    with tempfile.TemporaryDirectory(prefix="nodegate-pdf-", ignore_cleanup_errors=True) as scratch:
        made = Path(scratch) / "certificate.pdf"
        _print(browser, page, made, scratch)
        try:
            shutil.copyfile(made, file)
        except OSError as broken:
            raise UsageError(f"cannot be written: {broken.strerror}", file=str(file)) from broken


def _print(browser: str, page: Path, made: Path, scratch: str) -> None:
    sandbox = [] if os.geteuid() else ["--no-sandbox"]  # Chromium refuses to start as root with it
    command = [browser, *_OPTIONS, *sandbox, f"--user-data-dir={scratch}/profile", f"--print-to-pdf={made}"]
    try:
        done = subprocess.run(
            [*command, page.resolve().as_uri()], capture_output=True, timeout=PRINT_S, check=False, text=True
        )
    except (OSError, subprocess.TimeoutExpired) as broken:
        raise UsageError(f"{browser} could not print it: {broken}", file=str(page)) from broken
    if done.returncode or not made.is_file():
        said = done.stderr.strip().splitlines()
        raise UsageError(f"{browser} could not print it: {said[-1][:200] if said else done.returncode}", file=str(page))


def _has_chinese() -> bool:
    """Whether fontconfig has a font for Chinese; where it is not installed the browser has no fonts of its own."""
    if not (listing := shutil.which("fc-list")):
        return False
    found = subprocess.run([listing, ":lang=zh", "family"], capture_output=True, timeout=60, check=False)
    return bool(found.stdout.strip())
