"""The answer as one HTML file that opens offline, without scripts or other files."""

import base64
import hashlib
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from nodegate.text import visible
from nodegate.watch.answer import Answer, counted
from nodegate.watch.curve import Curve
from nodegate.watch.plot import plot
from nodegate.watch.render import MOST_LINES, headline

_HERE = Path(__file__).parent


def page(answer: Answer, curve: Curve, log: str) -> str:
    """The whole page."""
    style = Markup((_HERE / "page.css").read_text(encoding="utf-8"))  # noqa: S704 - the project's own file
    environment = Environment(
        autoescape=True,
        loader=FileSystemLoader(_HERE),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    return environment.get_template("page.html.j2").render(
        answer=answer,
        counted=counted,
        found=[*answer.slow, *answer.silent][-MOST_LINES:],
        headline=headline(answer),
        log=log,
        plot=Markup(plot(curve.buckets, answer.slow, answer.usual_s, answer.per)),  # noqa: S704 - made of numbers only
        policy=_policy(style),
        style=style,
    )


def _shown(value: object) -> object:
    return visible(value, most=4000) if isinstance(value, str) and not isinstance(value, Markup) else value


def _policy(style: str) -> str:
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
