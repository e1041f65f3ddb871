"""Client configurations: a server, its authorities, and the credentials of the client.

Turns the document of a client configuration (or the files of a pod) into an `Access`, and that into
the headers and the TLS of a request, which follow the files that it names: a token is read again
each minute, certificates each five minutes, and a command is run again once its credentials expire
or the server no longer knows them.

Holds: the document is checked whole before anything is read; data wins over a file of the same
purpose; a secret is in no text of an error.

Mirrors  client-go v1.25 tools/clientcmd (client_config.go, loader.go: relative paths are those of
         the file's folder), rest/config.go (InClusterConfig), transport/token_source.go (period 1
         minute, leeway 10 s), transport/cert_rotation.go (5 minutes), rest/config.go
         (AnonymousClientConfig).
Differs  `auth-provider` is refused (upstream's last two providers were removed in v1.26), and so
         are proxies of SOCKS, and proxies for a server with another name; connections with old
         certificates end when they are idle, not at once.
"""

from __future__ import annotations

import ssl
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sim.dataclass import dataclass
from sim.errors import InputError
from sim.files import read_bounded
from sim.options.client_config import cluster_of, context_of, user_of
from sim.wire.tls import client_context

PROXIES = ("http://", "https://")
TOKEN_PERIOD_S, TOKEN_LEEWAY_S = 60.0, 10.0
PAIR_PERIOD_S = 300.0
POD_HOST, POD_PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


class AccessError(Exception):
    """A configuration, or a file that it names, cannot be used: where, and why."""


class Source(NamedTuple):
    """A secret that is in the configuration, or in a file."""

    data: bytes = b""
    file: Path | None = None

    def __bool__(self) -> bool:
        return bool(self.data) or self.file is not None

    def read(self) -> bytes:
        """The bytes.  Raises AccessError."""
        if self.data or self.file is None:
            return self.data
        try:
            return read_bounded(self.file)
        except InputError as error:
            raise AccessError(str(error)) from None


@dataclass(frozen=True, slots=True)
class Access:
    """One context of a client configuration.

    server: address, without a slash at its end
    impersonation: headers that ask to act as another user
    command: the exec plugin's part of the configuration, {} for none
    packed: bodies are sent in protobuf
    accepted: the header Accept; "" for the form of bodies, and any other after it
    """

    server: str
    authorities: Source = Source()
    verified: bool = True
    server_name: str = ""
    proxy: str = ""
    certificate: Source = Source()
    key: Source = Source()
    token: Source = Source()
    basic: str = ""
    impersonation: tuple[tuple[str, str], ...] = ()
    command: Mapping[str, Any] | None = None
    cluster: Mapping[str, Any] | None = None
    packed: bool = False
    accepted: str = ""


class _Reader:
    """Reads the fields of one entry of a configuration, with the place of each."""

    def __init__(self, entry: Mapping[str, Any], place: str, folder: Path) -> None:
        self._entry = entry
        self._place = place
        self._folder = folder

    def text(self, field: str) -> str:
        value = self._entry.get(field)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise AccessError(f"{self._place}.{field}: must be a text")
        return value

    def flag(self, field: str) -> bool:
        value = self._entry.get(field)
        if value not in (None, True, False):
            raise AccessError(f"{self._place}.{field}: must be true or false")
        return bool(value)

    def source(self, file_field: str) -> Source:
        """A file, or base64 in the field with -data at its end."""
        data = self.text(f"{file_field}-data")
        if data:
            try:
                return Source(b64decode(data, validate=True))
            except (Base64Error, ValueError):
                raise AccessError(f"{self._place}.{file_field}-data: is not base64") from None
        return self.file(file_field)

    def file(self, field: str) -> Source:
        name = self.text(field)
        return Source(file=self._folder / name) if name else Source()


def access_of(document: Any, folder: Path, context: str = "") -> Access:
    """The access that a client configuration gives.  Raises AccessError.

    folder: of the file of the configuration
    context: "" for the current one
    """
    if not isinstance(document, Mapping):
        raise AccessError("must be a mapping with clusters, users and contexts")
    try:
        current = context_of(document, context)
        cluster, user = cluster_of(document, context), user_of(document, context)
    except ValueError as error:
        raise AccessError(str(error)) from None
    named = current.get("user")
    where = _Reader(cluster, f"clusters[{current.get('cluster')}].cluster", folder)
    who = _Reader(user, f"users[{named}].user", folder)
    server = where.text("server").rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise AccessError(
            f"clusters[{current.get('cluster')}].cluster.server: must be an address with https://"
        )
    if user.get("auth-provider"):
        raise AccessError(f"users[{named}].user.auth-provider: is not supported; use exec")
    if where.flag("insecure-skip-tls-verify") and where.source("certificate-authority"):
        raise AccessError(
            f"clusters[{current.get('cluster')}].cluster: insecure-skip-tls-verify and a certificate authority"
            " exclude each other"
        )
    proxy, server_name = where.text("proxy-url"), where.text("tls-server-name")
    if proxy and (server_name or not proxy.startswith(PROXIES)):
        raise AccessError(
            f"clusters[{current.get('cluster')}].cluster.proxy-url: must be an address with http:// or https://,"
            " and without tls-server-name"
        )
    certificate, key = who.source("client-certificate"), who.source("client-key")
    if bool(certificate) != bool(key):
        raise AccessError(f"users[{named}].user: a client certificate and its key belong together")
    password, name = who.text("password"), who.text("username")
    token = who.text("token")
    command = user.get("exec")
    if command is not None and not isinstance(command, Mapping):
        raise AccessError(f"users[{named}].user.exec: must be a mapping")
    return Access(
        server=server,
        authorities=where.source("certificate-authority"),
        verified=not where.flag("insecure-skip-tls-verify"),
        server_name=server_name,
        proxy=proxy,
        certificate=certificate,
        key=key,
        # A file wins, and the text serves while it cannot be read.
        token=Source(token.encode(), None) if token and not who.text("tokenFile") else who.file("tokenFile"),
        basic=b64encode(f"{name}:{password}".encode()).decode() if name else "",
        impersonation=tuple(_impersonation(user, f"users[{named}].user")),
        command=command,
        cluster=cluster,
    )


def _impersonation(user: Mapping[str, Any], place: str) -> list[tuple[str, str]]:
    reader = _Reader(user, place, Path())
    headers = [("Impersonate-User", reader.text("as"))] if reader.text("as") else []
    groups, extra = user.get("as-groups") or (), user.get("as-user-extra") or {}
    if not isinstance(groups, list | tuple) or not isinstance(extra, Mapping):
        raise AccessError(f"{place}: as-groups must be a list, and as-user-extra a mapping of lists")
    headers += [("Impersonate-Group", str(group)) for group in groups]
    if reader.text("as-uid"):
        headers.append(("Impersonate-Uid", reader.text("as-uid")))
    headers += [(f"Impersonate-Extra-{key}", str(value)) for key, values in extra.items() for value in values]
    if headers and not reader.text("as"):
        raise AccessError(f"{place}: as-groups, as-uid and as-user-extra need as")
    return headers


def pod_access(environment: Mapping[str, str], folder: Path) -> Access | None:
    """The access of a process in a pod; None outside of one.

    folder: where the token of the pod's account is mounted
    """
    host, port = environment.get(POD_HOST, ""), environment.get(POD_PORT, "")
    if not host or not port or not (folder / "token").exists():
        return None
    shown = f"[{host}]" if ":" in host else host
    return Access(
        server=f"https://{shown}:{port}",
        authorities=Source(file=folder / "ca.crt"),
        token=Source(file=folder / "token"),
    )


class Given(NamedTuple):
    """Credentials from a command.  expires_s: Unix seconds, infinity without an end"""

    token: str
    pair: bytes
    expires_s: float


class Credentials:
    """The credentials of an access as they are now.

    clock: real seconds, for how old what was read is
    run: runs the command of an access
    """

    def __init__(
        self,
        access: Access,
        clock: Callable[[], float],
        run: Callable[[Access], Given],
        wall_s: Callable[[], float],
    ) -> None:
        self.access = access
        self._clock = clock
        self._run = run
        self._wall_s = wall_s
        self._token = ("", -TOKEN_PERIOD_S)
        self._context: tuple[ssl.SSLContext | None, tuple[bytes, bytes], float] = (None, (b"", b""), 0.0)
        self._given: Given | None = None

    def use(self, access: Access) -> None:
        """Use another access to the same server, and read its files now."""
        self.access = access
        self._token = ("", -TOKEN_PERIOD_S)
        self._context = (self._context[0], self._context[1], -PAIR_PERIOD_S)

    def anonymous(self) -> Credentials:
        """Those of the same server for a client that shows something else, such as a token."""
        access = self.access
        server = Access(access.server, access.authorities, access.verified, access.server_name, access.proxy)
        return Credentials(server, self._clock, self._run, self._wall_s)

    def refuse(self) -> None:
        """The server does not know these credentials: ask for new ones next time."""
        self._given = None
        self._token = (self._token[0], -TOKEN_PERIOD_S)

    @property
    def asks(self) -> bool:
        """True if the command has to run, which takes time."""
        entry = self._given
        return bool(self.access.command) and (entry is None or entry.expires_s <= self._wall_s())

    def refresh(self) -> None:
        """Run the command.  Raises AccessError."""
        self._given = self._run(self.access)

    def headers(self) -> list[tuple[str, str]]:
        """The headers that authenticate.  Raises AccessError."""
        access = self.access
        token = self._given.token if self._given is not None and self._given.token else self._read_token()
        headers = list(access.impersonation)
        if token:
            headers.append(("Authorization", f"Bearer {token}"))
        elif access.basic:
            headers.append(("Authorization", f"Basic {access.basic}"))
        return headers

    def _read_token(self) -> str:
        token, read_s = self._token
        now_s = self._clock()
        if self.access.token and now_s - read_s >= TOKEN_PERIOD_S - TOKEN_LEEWAY_S:
            try:
                token = self.access.token.read().decode("utf-8", "replace").strip()
            except AccessError:
                if not token:
                    raise
            self._token = token, now_s
        return token

    def context(self) -> ssl.SSLContext | None:
        """TLS with the present certificates, the same object while they are the same; None for
        http.  Raises AccessError.
        """
        access = self.access
        if not access.server.startswith("https://"):
            return None
        context, made_of, read_s = self._context
        now_s = self._clock()
        entry = self._given.pair if self._given is not None else b""
        if context is not None and now_s - read_s < PAIR_PERIOD_S and (not entry or entry == made_of[1]):
            return context
        try:
            pair = entry or self._pair()
            result = access.authorities.read(), pair
        except AccessError:
            if context is None:
                raise
            result = made_of
        if context is None or result != made_of:
            try:
                context = client_context(result[0], result[1], verified=access.verified)
            except (ssl.SSLError, ValueError) as error:
                if context is not None:  # a pair of which one file has been replaced so far
                    return context
                raise AccessError(f"the certificates for {access.server} cannot be used: {error}") from None
        self._context = context, result, now_s
        return context

    def _pair(self) -> bytes:
        if not self.access.certificate:
            return b""
        return self.access.certificate.read() + b"\n" + self.access.key.read()
