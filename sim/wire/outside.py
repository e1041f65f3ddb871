"""Sends the calls of a simulation to servers outside, over HTTPS.

Turns an `OutsideRequest` into one HTTP/1.1 request, and the server's answer, or what prevented one,
into an operation at the gate of the kernel.  A failure has the words of Go's client.

Holds: each call posts one result; one that is cancelled posts the deadline.  An answer is read up
to its limit.  Connections are kept open and shared by calls with the same certificates.

Mirrors  golang net/http transport.go, net/dial.go, crypto/x509 verify.go at go1.19 (texts).
Differs  no proxy of the environment is used, and no redirect is followed here; of a certificate
         for other names the names are not listed.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

import httpx
import trio

from sim.kernel import Gate, OutsideAnswer, OutsideRequest
from sim.kernel.outside import ANSWERED, DEADLINE_EXCEEDED, failed

CLIENTS_MAX = 64  # sets of kept connections
_EXPIRED, _WRONG_HOST, _WRONG_ADDRESS = 10, 62, 64  # OpenSSL's X509_V_ERR_*
HTTP_PORT, HTTPS_PORT = 80, 443


class _Shared(NamedTuple):
    """What calls over one connection have in common."""

    server_name: str
    authorities: bytes
    verified: bool
    client_pair: bytes
    receiver: str = ""


class Service(Protocol):
    """A service that a client configuration names.  context: None for http"""

    @property
    def headers(self) -> dict[str, str]:
        """Headers of each request."""
        ...

    @property
    def context(self) -> ssl.SSLContext | None:
        """How its connections are secured."""
        ...


class OutsideSender:
    """The sender of one kernel.  `run` is its task.

    receivers: services by the names that requests give
    """

    def __init__(self, gate: Gate, receivers: Mapping[str, Service] = MappingProxyType({})) -> None:
        self._gate = gate
        self._receivers = receivers
        self._nursery: trio.Nursery | None = None
        self._scopes: dict[int, trio.CancelScope] = {}
        self._clients: dict[_Shared, httpx.AsyncClient] = {}
        self._busy: dict[_Shared, int] = {}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Send until it is cancelled."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._close)
            self._nursery = await stack.enter_async_context(trio.open_nursery())
            task_status.started()
            await trio.sleep_forever()

    async def _close(self) -> None:
        self._nursery = None
        with trio.CancelScope(shield=True):
            for client in self._clients.values():
                await client.aclose()

    def send(self, number: int, request: OutsideRequest, limit_s: float) -> None:
        """Begin a call; the result is given up after the limit, in real seconds."""
        if self._nursery is None:
            self._post(number, failed(DEADLINE_EXCEEDED))
            return
        self._scopes[number] = trio.CancelScope()
        self._nursery.start_soon(self._carry_out, number, request, limit_s)

    def cancel(self, number: int) -> None:
        """End a call: its result is no longer of use."""
        scope = self._scopes.get(number)
        if scope is not None:
            scope.cancel()

    async def _carry_out(self, number: int, request: OutsideRequest, limit_s: float) -> None:
        answer = failed(DEADLINE_EXCEEDED)
        scope = self._scopes[number]
        scope.deadline = trio.current_time() + limit_s
        try:
            with scope:
                answer = await self._exchange(request)
        finally:
            del self._scopes[number]
            self._post(number, answer)

    def _post(self, number: int, answer: OutsideAnswer) -> None:
        pairs = [list(pair) for pair in answer.headers]
        payload = [number, answer.code, pairs, answer.body, answer.failure]
        self._gate.post(ANSWERED, payload, lambda _: None)

    async def _exchange(self, request: OutsideRequest) -> OutsideAnswer:
        try:
            url = httpx.URL(request.url)
            host = url.host
            receiver = request.receiver
            shared = _Shared(host, request.authorities, request.verified, request.client_pair, receiver)
            if request.connect_to is not None:
                url = url.copy_with(host=request.connect_to[0], port=request.connect_to[1])
            async with AsyncExitStack() as stack:
                client = self._client(shared)
                stack.callback(self._free, shared)
                more = self._receivers[receiver].headers if receiver else {}
                return await _answer_of(client, request, url, host, more)
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, ValueError) as error:
            return failed(failure_of(error, request))

    def _client(self, shared: _Shared) -> httpx.AsyncClient:
        """The client with the connections of a server; the least used one makes room for it."""
        client = self._clients.pop(shared, None)
        if client is None:
            named = self._receivers.get(shared.receiver)
            context: ssl.SSLContext | bool = (
                named.context or False
                if named is not None
                else context_of(shared.authorities, shared.client_pair, verified=shared.verified)
            )
            client = httpx.AsyncClient(verify=context, timeout=None, trust_env=False)
            idle = next((each for each in self._clients if not self._busy.get(each)), None)
            if len(self._clients) >= CLIENTS_MAX and idle is not None and self._nursery is not None:
                self._nursery.start_soon(self._clients.pop(idle).aclose)
        self._clients[shared] = client
        self._busy[shared] = self._busy.get(shared, 0) + 1
        return client

    def _free(self, shared: _Shared) -> None:
        self._busy[shared] -= 1
        if not self._busy[shared]:
            del self._busy[shared]


async def _answer_of(
    client: httpx.AsyncClient, request: OutsideRequest, url: httpx.URL, host: str, more: Mapping[str, str]
) -> OutsideAnswer:
    netloc = urlsplit(request.url).netloc.rpartition("@")[2]
    headers = [("Host", netloc), *request.headers, *more.items()]
    extensions = {"sni_hostname": host}
    body = b""
    sent = client.build_request(
        request.method, url, headers=headers, content=request.body, extensions=extensions
    )
    answer = await client.send(sent, stream=True)
    try:
        async for part in answer.aiter_bytes():
            body += part
            if len(body) > request.answer_max:
                return failed(f"the answer is larger than {request.answer_max} bytes")
    except httpx.HTTPError:
        return OutsideAnswer(answer.status_code, (), b"", "unexpected EOF")
    finally:
        await answer.aclose()
    # The body is decoded, so that its encoding and its length are no longer true.
    dropped = ("content-encoding", "content-length", "transfer-encoding")
    pairs = tuple((name, value) for name, value in answer.headers.items() if name not in dropped)
    return OutsideAnswer(answer.status_code, pairs, body)


def context_of(authorities: bytes, client_pair: bytes, *, verified: bool) -> ssl.SSLContext:
    """TLS to a server.  Raises ssl.SSLError or ValueError for certificates that cannot be read."""
    context = ssl.create_default_context(cadata=authorities.decode() or None)
    if not verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if client_pair:
        with TemporaryDirectory() as folder:
            file = Path(folder, "pair.pem")
            file.touch(0o600)
            file.write_bytes(client_pair)
            context.load_cert_chain(file)
    return context


def failure_of(error: BaseException, request: OutsideRequest) -> str:
    """What Go's client reports in the place of this error."""
    parts = urlsplit(request.url)
    default = HTTPS_PORT if parts.scheme == "https" else HTTP_PORT
    host, port = request.connect_to or (parts.hostname or "", parts.port or default)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    # The first of these counts wherever it is in the chain: Trio reports a broken stream around it.
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"x509: {_certificate_failure(cause, parts.hostname or '')}"
    for cause in causes:
        if isinstance(cause, ssl.SSLError) and "WRONG_VERSION" in str(cause):
            return "http: server gave HTTP response to HTTPS client"
        if isinstance(cause, socket.gaierror):
            return f"dial tcp: lookup {host}: no such host"
        if isinstance(cause, ConnectionRefusedError):
            return f"dial tcp {address}: connect: connection refused"
    broken = ConnectionResetError | trio.BrokenResourceError | httpx.RemoteProtocolError
    if any(isinstance(cause, broken) for cause in causes):
        return "EOF"
    if isinstance(error, httpx.ConnectError) and not any(isinstance(each, ssl.SSLError) for each in causes):
        return f"dial tcp {address}: connect: connection refused"
    return str(error) or type(error).__name__


def _certificate_failure(error: ssl.SSLCertVerificationError, host: str) -> str:
    if error.verify_code == _EXPIRED:
        return "certificate has expired or is not yet valid"
    if error.verify_code in (_WRONG_HOST, _WRONG_ADDRESS):
        return f"certificate is not valid for {host}"
    return "certificate signed by unknown authority"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and what led to it, with the members of groups."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for each in error.exceptions:
                yield from _causes(each)
        error = error.__cause__ or error.__context__
