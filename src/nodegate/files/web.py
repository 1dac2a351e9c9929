"""How a server is asked over HTTP: proxies of the environment, TLS verified, no redirect followed."""

import ssl
import urllib.request
from pathlib import Path

from nodegate.errors import UsageError


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is a proxy's page for people to log in: it is said, never followed with a secret."""

    def redirect_request(self, *_: object, **__: object) -> None:
        """Follow none."""


def opener(ca_file: Path | None = None) -> urllib.request.OpenerDirector:
    """What opens addresses; `ca_file` has the certificates that the server's may be signed by.

    Raises:
        UsageError: the certificates cannot be read.
    """
    try:
        context = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
    except (OSError, ssl.SSLError) as said:
        raise UsageError(f"the certificates cannot be read: {said}", file=str(ca_file)) from said
    return urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=context))
