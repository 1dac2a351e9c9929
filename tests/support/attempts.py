"""Attempts of a measurement for tests, and runs with other plans and notes."""

from dataclasses import replace

from nodegate.errors import CannotMeasure
from nodegate.records.program_run import Attempt, LaunchNotes, LaunchPlan, LinkEnd, LinkNotes, LinkPlan, Plan


def attempts(each, node=""):
    """What one node keeps of its attempts, each of which is one, or the runs of one."""
    return [one if isinstance(one, Attempt) else Attempt(tuple(one), node=node) for one in each]


def why_not(parse, tried):
    """Why attempts cannot be read."""
    try:
        parse(attempts(tried))
    except CannotMeasure as why:
        return why
    raise AssertionError("it was read")


def having(ran, **fields):
    """The run with these fields of its plan and of its notes; `client_near` is `near` of the client's end."""
    plan, link, launch = ran.plan, ran.link, ran.launch
    for name, value in fields.items():
        end, _, of_end = name.partition("_")
        if end in {"client", "server"} and of_end in LinkEnd.__slots__:
            link = replace(link, **{end: replace(getattr(link, end), **{of_end: value})})
        elif plan.link is not None and name in LinkPlan.__slots__:
            plan = replace(plan, link=replace(plan.link, **{name: value}))
        elif plan.launch is not None and name in LaunchPlan.__slots__:
            plan = replace(plan, launch=replace(plan.launch, **{name: value}))
        elif name in Plan.__slots__:
            plan = replace(plan, **{name: value})
        elif name in LinkNotes.__slots__:
            link = replace(link, **{name: value})
        else:
            assert name in LaunchNotes.__slots__, name
            launch = replace(launch, **{name: value})
    return replace(ran, plan=plan, link=link, launch=launch)
