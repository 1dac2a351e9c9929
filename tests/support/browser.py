"""A real Chromium, headless and with no network use of its own: what a page becomes once its scripts ran."""

import html
import json
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import axe_core_python

TIMEOUT_S = 300
_AXE = """
addEventListener("load", () => axe.run().then(found => {
  const said = document.createElement("pre"); said.id = "axe";
  const each = found.violations.flatMap(rule => rule.nodes.map(node => `${rule.id}: ${node.target}`));
  said.textContent = JSON.stringify(each); document.body.append(said); }));
"""
NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium():
    """The path of the browser.

    Raises:
        FileNotFoundError: none is installed (`apt-get install chromium`).
    """
    for name in NAMES:
        found = shutil.which(name)
        if found:
            return found
    raise FileNotFoundError("no chromium on this machine: apt-get install chromium")


def dump_dom(path, fragment="", width=0):
    """The page's document as HTML, after its scripts ran; opened at `#fragment`, in a window of `width` pixels."""
    window = (f"--window-size={width},900",) if width else ()
    return _chromium(path, "--dump-dom", *window, fragment=fragment).stdout


def console(path):
    """What the browser logged about the page: script errors, violations of the content security policy."""
    logged = _chromium(path, "--enable-logging=stderr", "--v=0", "--dump-dom").stderr
    return [line for line in logged.splitlines() if "CONSOLE" in line]


def print_pdf(path, out):
    """Print the page as a person would."""
    _chromium(path, f"--print-to-pdf={out}", "--no-pdf-header-footer")


def _chromium(path, *options, fragment=""):
    with profile_folder() as profile:
        return subprocess.run(
            [
                chromium(),
                *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
                *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
                *("--disable-dev-shm-usage", "--virtual-time-budget=20000", f"--user-data-dir={profile}"),
                *options,
                path.resolve().as_uri() + (f"#{fragment}" if fragment else ""),
            ],
            check=True,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
        )


@contextmanager
def profile_folder():
    """An empty profile for each start; a child of the browser may write to it a moment longer than the browser runs."""
    folder = tempfile.mkdtemp(prefix="chromium-")
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def accessibility(path, width, *, dark):
    """What axe-core finds wrong on the page: "rule: selector". The copy that it looks at lets its script run."""
    axe = Path(axe_core_python.__file__).with_name("axe.min.js").read_text(encoding="utf-8")
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", path.read_text(encoding="utf-8"))
    copy = path.with_name(f"axe-{path.name}")
    copy.write_text(page.replace("</body>", f"<script>{axe}</script><script>{_AXE}</script></body>"), encoding="utf-8")
    theme = ("--blink-settings=preferredColorScheme=0",) if dark else ()
    dom = _chromium(copy, "--dump-dom", f"--window-size={width},900", *theme).stdout
    found: list[str] = json.loads(html.unescape(dom.partition('id="axe">')[2].partition("</pre>")[0]))
    return found
