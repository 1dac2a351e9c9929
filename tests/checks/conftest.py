"""The table at the end: which real recordings were judged, and what was missed."""


def pytest_terminal_summary(terminalreporter):
    """What the corpus tests left in their reports; it crosses pytest-xdist's workers."""
    said: dict[str, set[str]] = {}
    for name, value in _properties(terminalreporter):
        said.setdefault(name, set()).add(value)
    if not any(name.startswith("corpus") for name in said):
        return
    missed = sorted(said.get("corpus missed", ()))
    judged = len(said.get("corpus judged", ()))
    terminalreporter.write_sep("-", f"real recordings: {judged} judged, {len(missed)} findings missed or false")
    for row in missed:
        terminalreporter.write_line(row)
    for row in sorted(said.get("corpus table", ())):
        terminalreporter.write_line(f"  {row}")


def _properties(terminalreporter):
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "call":
                yield from ((str(name), str(value)) for name, value in report.user_properties)
