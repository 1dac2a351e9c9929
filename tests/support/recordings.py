"""The project's own recordings of tools: tests/tools/recordings/<tool>/<name>."""

from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "tools" / "recordings"


def recording(tool, name):
    """The text of one recording."""
    return (FOLDER / tool / name).read_text(encoding="utf-8")
