"""`apprise:`: what Apprise sends to, which is an extra: pip install 'nodegate[apprise]'."""

import logging

from nodegate.notices.message import Notice
from nodegate.notices.target import Target

LIMIT_S = 30.0  # Apprise takes a second to load, and has limits of its own


def send(target: Target, notice: Notice, limit_s: float) -> None:  # noqa: ARG001 - as above
    """Send one notice; NotSent if it did not arrive."""
    logging.getLogger("apprise").setLevel(logging.CRITICAL)  # it logs addresses
    from apprise import Apprise, NotifyFormat, NotifyType  # noqa: PLC0415 - an extra

    sender = Apprise()
    if not sender.add(target.address):
        raise target.failed("Apprise does not know such an address")
    kind = NotifyType.WARNING if notice.new else NotifyType.INFO
    if not sender.notify(notice.text, notice.title, kind, NotifyFormat.TEXT):
        raise target.failed("Apprise could not send it", again=True)
