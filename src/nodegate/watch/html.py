"""The answer as one HTML file that opens offline, without scripts or other files."""

from pathlib import Path

from markupsafe import Markup

from nodegate.report.html import content_policy, environment
from nodegate.watch.answer import Answer, counted
from nodegate.watch.plot import Curve, plot
from nodegate.watch.render import MOST_LINES, headline

_HERE = Path(__file__).parent


def page(answer: Answer, curve: Curve, log: str) -> str:
    """The whole page."""
    style = Markup((_HERE / "page.css").read_text(encoding="utf-8"))  # noqa: S704 - the project's own file
    template = environment(_HERE).get_template("page.html.j2")
    return template.render(
        answer=answer,
        counted=counted,
        found=[*answer.slow, *answer.silent][-MOST_LINES:],
        headline=headline(answer),
        log=log,
        plot=Markup(plot(curve.buckets, answer.slow, answer.usual_s, answer.per)),  # noqa: S704 - made of numbers only
        policy=content_policy(style, ""),
        style=style,
    )
