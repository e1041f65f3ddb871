"""A client of the control API of a served cluster, over HTTPS, by a client configuration.

Turns calls into requests, and refusals into `InputError` with the words of the server.

Holds: a secret of the configuration is in no error.
"""

from __future__ import annotations

import json
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from sim.app.receivers import read_receiver
from sim.app.steering import PREFIX
from sim.errors import InputError
from sim.scenario.read.option_file import OptionFile

Obj = dict[str, Any]
CONNECT_S = 10.0
OPTION = "client-config"
PART = 1 << 18  # bytes read at once
OK = range(200, 300)


def default_config() -> Path:
    """The client configuration of kubectl: the first of KUBECONFIG, or that of the home folder."""
    named = [part for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return Path(named[0]) if named else Path.home() / ".kube" / "config"


class Remote:
    """The control API of one cluster.

    config: a client configuration; None for that of kubectl
    context: its context; "" for the current one
    Raises InputError.
    """

    def __init__(self, config: Path | None = None, context: str = "") -> None:
        self._file = config or default_config()
        server, self._headers, self._tls = read_receiver(OptionFile(OPTION, str(self._file)), context)
        self._url = urlsplit(server)
        if not self._url.hostname:
            raise InputError(f"its server {server!r} is no URL", str(self._file))

    def get(self, path: str, **query: str) -> Any:
        """The JSON at a path."""
        return self._asked("GET", path, query=query)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The answer to a body."""
        return self._asked("POST", path, body or {})

    def put(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer to a body."""
        return self._asked("PUT", path, body)

    def delete(self, path: str) -> Any:
        """The answer to the removal of what is at a path."""
        return self._asked("DELETE", path)

    def download(self, path: str, **query: str) -> Iterator[bytes]:
        """The file at a path, in parts."""
        with self._answer("GET", path, query) as response:
            while part := response.read(PART):
                yield part

    def changes(self) -> Iterator[Obj]:
        """The messages of changes as they come, until the server ends."""
        return self._messages("GET", "/changes", None)

    def follow(self, path: str, body: Mapping[str, Any]) -> Iterator[Obj]:
        """The messages that a body is answered with, until the server ends."""
        return self._messages("POST", path, body)

    def _messages(self, method: str, path: str, body: Mapping[str, Any] | None) -> Iterator[Obj]:
        with self._answer(method, path, {}, body) as response:
            for line in response:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])

    def _asked(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Any:
        with self._answer(method, path, query or {}, body) as response:
            return json.loads(response.read())

    @contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Mapping[str, Any] | None = None,
    ) -> Iterator[HTTPResponse]:
        entry = {name: value for name, value in query.items() if value}
        target = self._url.path.rstrip("/") + PREFIX + quote(path)
        target += f"?{urlencode(entry)}" if entry else ""
        data = None if body is None else json.dumps(body).encode()
        headers = {"User-Agent": "orrery", "Content-Type": "application/json", **self._headers}
        connection = self._connection()
        where = f"{self._url.scheme}://{self._url.netloc}"
        try:
            connection.connect()
            # An answer may take as long as the run that it ends.
            connection.sock.settimeout(None)
            connection.request(method, target, data, headers)
            response = connection.getresponse()
            if response.status not in OK:
                raise _refusal(response, where)
            yield response
        except ssl.SSLError as error:
            raise InputError(f"its certificate is not accepted: {error.reason}", where) from None
        except (OSError, HTTPException) as error:
            what = getattr(error, "strerror", None) or str(error) or type(error).__name__
            remedy = f"is the server of {self._file} running?"
            raise InputError(f"does not answer: {what}", where, remedy) from None
        finally:
            connection.close()

    def _connection(self) -> HTTPConnection:
        host, port = str(self._url.hostname), self._url.port
        if self._tls is None:
            return HTTPConnection(host, port or 80, timeout=CONNECT_S)
        return HTTPSConnection(host, port or 443, timeout=CONNECT_S, context=self._tls)


def _refusal(response: HTTPResponse, where: str) -> InputError:
    """The error of an answer that is a Status, or no answer of this API."""
    raw = response.read()
    try:
        message = str(json.loads(raw)["message"])
    except (ValueError, KeyError, TypeError):
        return InputError(f"answers {response.status}", where, "is it served by orrery?")
    return InputError(message, where if response.status != 422 else "")
