"""The pages of docs/guide, and the blocks of code on them."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "guide"


class Page:
    """A page of the guide."""

    def __init__(self, name):
        self.text = (GUIDE / name).read_text("utf-8")

    def block(self, language):
        """Its only block in this language."""
        (found,) = re.findall(rf"^```{language}\n(.*?)\n```$", self.text, re.MULTILINE | re.DOTALL)
        return str(found)

    @property
    def files(self):
        """The files that it prints, each below its name."""
        return dict(
            re.findall(r"^`([\w/.-]+\.(?:py|yaml))`:\n\n```\w+\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)
        )
