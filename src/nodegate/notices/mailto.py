"""`mailto:`: a mail to one or several addresses, over the mail server of this machine or the one that is named.

After the addresses may come `smtp://HOST:PORT`, `smtp://USER:PASSWORD@HOST:587` (STARTTLS, then the log-in) or
`smtps://USER:PASSWORD@HOST`, each with `?from=ADDRESS`. A password is never sent without TLS.
"""

import contextlib
import smtplib
import socket
import ssl
import urllib.parse
from email.message import EmailMessage

from nodegate.notices.message import Notice
from nodegate.notices.target import NotSent, Target

_LONGEST_SUBJECT = 200


def send(target: Target, notice: Notice, limit_s: float) -> None:
    """Send one notice; NotSent if it did not arrive, or not at each address."""
    server = urllib.parse.urlsplit(target.rest or "smtp://localhost")
    given = urllib.parse.parse_qs(server.query)
    mail = EmailMessage()
    mail["Subject"] = notice.title[:_LONGEST_SUBJECT]
    mail["From"] = given.get("from", [f"nodegate@{socket.getfqdn()}"])[0]
    mail["To"] = target.address.replace(",", ", ")
    mail.set_content(notice.text, charset="utf-8")
    try:
        with contextlib.closing(_connected(server, limit_s)) as smtp:
            refused = smtp.send_message(mail)
            with contextlib.suppress(smtplib.SMTPException, OSError):  # the server has taken it
                smtp.quit()
    except smtplib.SMTPResponseException as said:
        again = 400 <= said.smtp_code < 500
        raise target.failed(f"the mail server answers {said.smtp_code}", again=again) from None
    except smtplib.SMTPException as said:
        why = "every address was refused" if isinstance(said, smtplib.SMTPRecipientsRefused) else str(said)
        raise target.failed(why) from None
    except OSError as said:
        raise target.failed(f"the mail server does not answer: {said}", again=True) from None
    if refused:
        raise NotSent(f"notice was not sent to {', '.join(sorted(refused))}: the mail server refuses it", keep=False)


def _connected(server: urllib.parse.SplitResult, limit_s: float) -> smtplib.SMTP:
    host, context = server.hostname or "localhost", ssl.create_default_context()
    if server.scheme == "smtps":
        smtp: smtplib.SMTP = smtplib.SMTP_SSL(host, server.port or 465, timeout=limit_s, context=context)
    else:
        smtp = smtplib.SMTP(host, server.port or 25, timeout=limit_s)
    try:
        if server.username:
            if server.scheme == "smtp":
                smtp.starttls(context=context)
            smtp.login(urllib.parse.unquote(server.username), urllib.parse.unquote(server.password or ""))
    except BaseException:
        smtp.close()
        raise
    return smtp
