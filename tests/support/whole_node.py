"""Every check on one made-up node: as a run judges it, and as the pre-job check answers for it."""

from support.judging import judge_all

from nodegate import suite
from nodegate.profile import Profile
from nodegate.records.evidence import Evidence
from nodegate.run.bootcheck import bootcheck


def bootchecked(machine):
    """What `nodegate bootcheck` answers on this machine."""
    return bootcheck(measure=lambda node: Evidence(node.name, "facts", 0.0, 0.0, document=machine.document()))


def whole(machine, profile=Profile.DELIVERY, only=lambda check: True):
    """Every check of the profile on one machine, or those of which `only` says so."""
    asked = [check for check in suite.checks() if profile.includes(check.tier) and only(check)]
    return judge_all(machine, asked, profile=profile)
