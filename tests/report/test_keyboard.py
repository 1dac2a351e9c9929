"""report.html by its keyboard alone, in a real Chromium: all that a mouse can do on it, with the focus seen."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.keyboard import Page, opened
from support.sample_report import fleet

from nodegate.report.render import render

ROWS = "document.querySelectorAll('#grid tbody tr').length"
FIRST = "document.querySelector('#grid tbody th').textContent"


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    render(fleet(24), tmp_path)
    with opened(tmp_path / "report.html") as page:
        yield page


def test_a_cause_is_filtered_chosen_and_opened(page: Page) -> None:
    shown = "[...document.querySelectorAll('tbody.cause')].filter(each => !each.hidden).length"
    every = page.asked(shown)
    page.tab_to("e.id === 'cause-find'")
    for key in "gpu":
        page.press(key)
    assert page.asked("document.activeElement.value") == "gpu"
    for _ in "gpu":
        page.press("Backspace")
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


def test_the_first_screen_leads_to_a_cause(page: Page) -> None:
    page.tab_to("e.matches('.top a[href^=\"#cause=\"]')")
    page.press("Enter")
    assert page.asked("document.activeElement.matches('tbody.cause.mark summary')")
    assert page.asked("document.activeElement.parentNode.open")


def test_the_matrix_is_sorted_filtered_and_leads_to_a_node(page: Page) -> None:
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
