"""The live page of a served cluster for browsers: what is sent, and how a browser logs in.

Turns a request of a browser for the root into the page, one for a file of it into that file, and
the code of the link in the terminal into a token, once.

Holds: the page loads nothing from elsewhere, and its policy allows no script that is not a file of
it; a code is good for one login, and is as long as a token; other clients get the API's own root.

Why the scripts are written by hand: the page is three canvases and some tables, 1,800 lines. uPlot
and Observable Plot draw series, but no grid of nodes and no rows of states that share an axis with
marks; Preact and Lit keep trees of elements, of which this page has few. A framework would be more
to ship, to license and to keep than it saves.
"""

from __future__ import annotations

import secrets
from importlib.resources import files

import msgspec

from sim.api import status
from sim.wire.exchange import Response
from sim.wire.http.chain.request import HttpRequest, Outcome

ROOT, FOLDER, LOGIN = "/", "/orrery/page/", "/orrery/login"
MEDIA = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SAFE = [
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-cache"),
]
CODE_BYTES = 24


class Page:
    """The stage of the chain of requests that answers the page, to users without a login too.

    token: of the user of the page
    """

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(CODE_BYTES)
        self._codes: set[str] = set()

    def code(self) -> str:
        """A new code for one login."""
        code = secrets.token_urlsafe(CODE_BYTES)
        self._codes.add(code)
        return code

    def __call__(self, request: HttpRequest) -> Outcome:
        """The answer to a request for the page; nothing for others."""
        path, method = request.path, request.exchange.method
        if path == LOGIN and method == "POST":
            return self._login(request)
        if method not in ("GET", "HEAD"):
            return None
        if path == ROOT and "text/html" in request.header("accept"):
            return _file("index.html")
        if path.startswith(FOLDER):
            return _file(path.removeprefix(FOLDER))
        return None

    async def _login(self, request: HttpRequest) -> Response:
        raw = await request.exchange.body.read()
        try:
            code = str(msgspec.json.decode(raw or b"{}", type=dict[str, str]).get("code"))
        except msgspec.MsgspecError:
            code = ""
        if code not in self._codes:
            said = status.status(401, "Unauthorized", "this link was used already, or is of another server")
            return Response(401, msgspec.json.encode(said), [("Content-Type", "application/json"), *SAFE])
        self._codes.remove(code)
        answer = msgspec.json.encode({"token": self.token})
        return Response(200, answer, [("Content-Type", "application/json"), *SAFE])


def _file(name: str) -> Response:
    """A file of the page."""
    entry = {file.name: file for file in (files(__package__) / "static").iterdir()}
    file = entry.get(name)
    if file is None:
        return Response(404, b"404 page not found\n", [("Content-Type", "text/plain"), *SAFE])
    media = MEDIA[f".{name.rpartition('.')[2]}"]
    return Response(200, file.read_bytes(), [("Content-Type", f"{media}; charset=utf-8"), *SAFE], 1 << 10)
