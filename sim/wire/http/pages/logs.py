"""The log files of the machine of an API server: /logs.

Turns a path into a `Document`: a listing, or no page.

Mirrors  kubernetes v1.25 pkg/routes/logs.go, net/http fs.go (a folder without a slash at its end is
         redirected; a listing).
Quirk    the route names no form, so that a client that accepts only JSON gets 406.
Differs  the machine of a simulated API server has no log files: its folder is empty.
"""

from __future__ import annotations

from sim.api import status
from sim.wire.http.forms.negotiation import NotAcceptable, check_produced
from sim.wire.http.pages.document import NO_PAGE, Document, refused

HTML = "text/html; charset=utf-8"


def logs_page(method: str, path: str, accept: str) -> Document:
    """The page of a path that begins with /logs."""
    if method != "GET":
        return refused(status.method_not_allowed())
    try:
        check_produced(accept, [])
    except NotAcceptable as error:
        return refused(error.body)
    if path == "/logs":
        return Document(301, headers={"Location": "logs/"})
    if path == "/logs/":
        return Document(raw=b"<pre>\n</pre>\n", media=HTML)
    return NO_PAGE
