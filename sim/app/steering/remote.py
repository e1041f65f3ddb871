"""A client of the control API of a served cluster, over HTTPS, by a client configuration.

Turns calls into requests, and refusals into `InputError` with the words of the server.

Holds: only the standard library is needed; a secret of the configuration is in no error.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import yaml

from sim.app.steering import PREFIX
from sim.errors import InputError, suggestion

Obj = dict[str, Any]
CONNECT_S = 10.0
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
        self._cluster, self._user = _entries(self._file, context)
        server = str(self._cluster.get("server", ""))
        self._url = urlsplit(server)
        if self._url.scheme not in ("http", "https") or not self._url.hostname:
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

    def download(self, path: str, **query: str) -> bytes:
        """The file at a path."""
        with self._answer("GET", path, query) as response:
            return response.read()

    def changes(self) -> Iterator[Obj]:
        """The messages of changes as they come, until the server ends."""
        with self._answer("GET", "/changes", {}, endless=True) as response:
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
        *,
        endless: bool = False,
    ) -> Iterator[HTTPResponse]:
        given = {name: value for name, value in query.items() if value}
        target = self._url.path.rstrip("/") + PREFIX + quote(path)
        target += f"?{urlencode(given)}" if given else ""
        data = None if body is None else json.dumps(body).encode()
        headers = {"User-Agent": "orrery", "Content-Type": "application/json", **self._token()}
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
        if self._url.scheme == "http":
            return HTTPConnection(host, port or 80, timeout=CONNECT_S)
        return HTTPSConnection(host, port or 443, timeout=CONNECT_S, context=self._tls())

    def _tls(self) -> ssl.SSLContext:
        cluster, user = self._cluster, self._user
        authority = _data(cluster, "certificate-authority", self._file)
        context = ssl.create_default_context(cadata=authority.decode() if authority else None)
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        certificate, key = (_data(user, f"client-{part}", self._file) for part in ("certificate", "key"))
        if certificate and key and not self._token():
            with NamedTemporaryFile(prefix="orrery-") as file:  # for its owner only
                file.write(certificate + b"\n" + key)
                file.flush()
                context.load_cert_chain(file.name)
        return context

    def _token(self) -> dict[str, str]:
        token = self._user.get("token", "")
        if not token and (name := self._user.get("tokenFile")):
            token = _read(self._file.parent / str(name)).decode().strip()
        return {"Authorization": f"Bearer {token}"} if token else {}


def _refusal(response: HTTPResponse, where: str) -> InputError:
    """The error of an answer that is a Status, or no answer of this API."""
    raw = response.read()
    try:
        message = str(json.loads(raw)["message"])
    except (ValueError, KeyError, TypeError):
        return InputError(f"answers {response.status}", where, "is it served by orrery?")
    return InputError(message, where if response.status != 422 else "")


def _entries(file: Path, context: str) -> tuple[Obj, Obj]:
    """The cluster and the user of a context.  Raises InputError."""
    try:
        found = yaml.safe_load(_read(file))
        contexts = {one["name"]: one["context"] for one in found.get("contexts") or ()}
        chosen = context or str(found.get("current-context") or "")
        if chosen not in contexts:
            remedy = suggestion(chosen, contexts) or f"it has {', '.join(contexts) or 'none'}"
            raise InputError(f"has no context {chosen!r}", str(file), remedy)
        clusters = {one["name"]: one["cluster"] for one in found.get("clusters") or ()}
        users = {one["name"]: one["user"] for one in found.get("users") or ()}
        wanted = contexts[chosen]
        return clusters[wanted["cluster"]], users.get(wanted.get("user"), {})
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, UnicodeDecodeError):
        raise InputError("is no client configuration", str(file)) from None


def _data(entry: Obj, name: str, file: Path) -> bytes:
    """What an entry holds under NAME-data, or the file that it names; b"" for neither."""
    if encoded := entry.get(f"{name}-data"):
        return base64.b64decode(encoded)
    return _read(file.parent / str(entry[name])) if entry.get(name) else b""


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(
            error.strerror or "cannot be read", str(file), "--client-config FILE names another"
        ) from None
