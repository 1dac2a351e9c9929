"""report.html by its keyboard alone, in a real Chromium: all that a mouse can do on it, with the focus seen."""

import json
import os
import subprocess
import time
from contextlib import contextmanager
from typing import Any

import pytest
from support.browser import chromium, profile_folder
from support.sample_report import fleet

from nodegate.report.render import render

KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), " ": (32, " "), "ArrowDown": (40, ""), "Backspace": (8, "")}
_SHIFT = 8


class Page:
    """One page; each key goes where the focus is."""

    def __init__(self, to, back):
        self._to, self._back, self._number, self._session, self._read = to, back, 0, "", b""

    def call(self, method, **given):
        """One command of the protocol, and its answer; what the browser tells besides is passed over."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": given}
        asked |= {"sessionId": self._session} if self._session else {}
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        while True:
            while b"\0" not in self._read:
                self._read += os.read(self._back, 1 << 16)
            line, _, self._read = self._read.partition(b"\0")
            answer = json.loads(line)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                found: dict[str, Any] = answer["result"]
                return found

    def open(self, path):
        """The page, when its script has run."""
        target = self.call("Target.createTarget", url=path.resolve().as_uri())["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for _ in range(600):
            if self.asked("document.documentElement?.dataset.ready"):
                return
            time.sleep(0.1)
        raise TimeoutError(path)

    def asked(self, script):
        """What an expression is in the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key, *, shift=False):
        """One key, down and up."""
        code, text = KEYS.get(key, (0, key))
        about = {"key": key, "windowsVirtualKeyCode": code, "modifiers": _SHIFT * shift}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", **about)

    def tab_to(self, script, most=400):
        """Press Tab until `script` is true of the element `e` that has the focus, which is seen to have it."""
        for _ in range(most):
            self.press("Tab")
            if self.asked(f"(e => Boolean({script}))(document.activeElement)"):
                assert self.asked("getComputedStyle(document.activeElement).outlineStyle") != "none"
                return
        raise AssertionError(f"Tab does not reach {script}")


@contextmanager
def opened(path):
    """The page in a browser of its own."""
    ours, theirs = os.pipe(), os.pipe()
    with profile_folder() as profile:
        options = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking"
        command = f'exec "$0" {options} --remote-debugging-pipe --user-data-dir={profile} 3<&{ours[0]} 4>&{theirs[1]}'
        shell = ["bash", "-c", command, chromium()]
        browser = subprocess.Popen(shell, pass_fds=(ours[0], theirs[1]), stderr=subprocess.DEVNULL)
        try:
            page = Page(ours[1], theirs[0])
            page.open(path)
            yield page
        finally:
            browser.kill()
            browser.wait()
            for each in (*ours, *theirs):
                os.close(each)


ROWS = "document.querySelectorAll('#grid tbody tr').length"
FIRST = "document.querySelector('#grid tbody th').textContent"


@pytest.fixture
def page(tmp_path):
    render(fleet(24), tmp_path)
    with opened(tmp_path / "report.html") as page:
        yield page


def test_a_cause_is_filtered_chosen_and_opened(page):
    shown = "[...document.querySelectorAll('tbody.cause')].filter(each => !each.hidden).length"
    every = page.asked(shown)
    page.tab_to("e.id === 'cause-find'")
    for key in "gpu012":
        page.press(key)
    assert page.asked(shown) == 1
    for _ in "gpu012":
        page.press("Backspace")
    assert page.asked(shown) == every
    page.tab_to("e.dataset.filter === 'severity'")
    page.press("ArrowDown")
    assert 0 < page.asked(shown) < every
    assert "severity=" in page.asked("location.hash")
    page.tab_to("e.matches('tbody.cause summary')")
    page.press(" ")
    assert page.asked("document.activeElement.parentNode.open")
    page.press("Enter")
    assert not page.asked("document.activeElement.parentNode.open")
    page.tab_to("e.matches('tbody.cause a[href^=\"#node=\"]')")
    name = page.asked("decodeURIComponent(document.activeElement.hash.slice(6))")
    page.press("Enter")
    assert page.asked("document.querySelector('#articles h3').textContent").startswith(name)
    assert page.asked("document.activeElement.id") == "h-node"


def test_the_first_screen_leads_to_a_cause(page):
    page.tab_to("e.matches('.top a[href^=\"#cause=\"]')")
    page.press("Enter")
    assert page.asked("document.activeElement.matches('tbody.cause.mark summary')")
    assert page.asked("document.activeElement.parentNode.open")


def test_the_matrix_is_sorted_filtered_and_leads_to_a_node(page):
    every, first = page.asked(ROWS), page.asked(FIRST)
    page.tab_to("e.id === 'find'")
    for key in first:
        page.press(key)
    assert page.asked(ROWS) == 1
    for _ in first:
        page.press("Backspace")
    assert page.asked(ROWS) == every
    page.tab_to("e.type === 'checkbox'")
    page.press(" ")
    assert page.asked(ROWS) < every
    page.press(" ")
    page.tab_to("e.id === 'pick'")
    page.press("ArrowDown")
    assert page.asked(ROWS) < every
    assert "check=" in page.asked("location.hash")
    page.tab_to("e.matches('#grid thead th button')")
    page.press("Enter")
    up = page.asked("document.activeElement.parentNode.ariaSort")
    page.press(" ")
    assert {up, page.asked("document.activeElement.parentNode.ariaSort")} == {"ascending", "descending"}
    page.tab_to("e.matches('.heads button')")
    page.press("Enter")
    assert page.asked("document.activeElement.classList.contains('on')")
    page.tab_to("e.matches('#grid tbody a')")
    name = page.asked("document.activeElement.textContent")
    page.press("Enter")
    assert page.asked("document.querySelector('#articles h3').textContent").startswith(name)
    page.tab_to("e.id === 'print-all'", 5)
    page.press(" ")
    assert page.asked("document.activeElement.checked")
