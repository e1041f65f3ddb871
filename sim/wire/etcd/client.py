"""Requests to a real etcd: one of several servers, the next when it is not reached.

Turns a path and a body into the code and the body of an answer, and a watch into its messages.

Holds: a request is sent to another server only if it cannot have reached the one before; an answer
has at most ANSWER_MAX bytes.

Mirrors  etcd v3.4 client (an endpoint at a time, the next one after a failure).

Differs  an etcd that wants certificates of its clients needs one for its server that is for clients
         too, as kubeadm makes it, since its gateway is a client.

Rejected  gRPC: grpcio needs asyncio or threads, grpclib asyncio; the gateway of JSON costs 0.1 ms a
          request more, and its streams carry watches as well.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import httpx
import msgspec

from sim.wire.etcd.messages import EVERY_KEY, Line, News, decode, encode

ANSWER_MAX = 1 << 29
DIAL_S, ANSWER_S = 5.0, 30.0
CONNECTIONS_MAX = 64
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout)


class EtcdError(Exception):
    """No server has answered, or a watch has ended."""


class EtcdClient:
    """The servers of one etcd.

    servers: URLs; context: TLS, for those of https
    """

    def __init__(self, servers: Sequence[str], context: ssl.SSLContext | None = None) -> None:
        self._servers = [server.rstrip("/") for server in servers]
        self._now = 0
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=CONNECTIONS_MAX)
        self._http = httpx.AsyncClient(
            verify=True if context is None else context, limits=limits, trust_env=False
        )

    async def call(self, path: str, body: bytes) -> tuple[int, bytes]:
        """The code and the body of an answer.  Raises EtcdError."""
        timeout = httpx.Timeout(ANSWER_S, connect=DIAL_S, pool=None)
        why = ""
        for _ in self._servers:
            server = self._servers[self._now]
            try:
                answer = await self._http.post(f"{server}/v3/{path}", content=body, timeout=timeout)
            except _NOT_SENT as error:
                why = f"{server}: {error or type(error).__name__}"
                self._turn(server)
                continue
            except httpx.HTTPError as error:
                self._turn(server)
                raise EtcdError(f"{server}: {error or type(error).__name__}") from None
            return answer.status_code, answer.content
        raise EtcdError(why)

    def _turn(self, server: str) -> None:
        """Use the next server, if this is still the one in use."""
        if self._servers[self._now] == server:
            self._now = (self._now + 1) % len(self._servers)

    async def watch(self, rev: int) -> AsyncGenerator[News, None]:
        """The messages of a watch of all keys from a revision on.  Raises EtcdError at its end."""
        create = {
            "key": EVERY_KEY,
            "range_end": EVERY_KEY,
            "start_revision": rev,
            "progress_notify": True,
            "fragment": True,
        }
        server = self._servers[self._now]
        timeout = httpx.Timeout(None, connect=DIAL_S)
        body = encode({"create_request": create})
        try:
            async with (
                self._http.stream("POST", f"{server}/v3/watch", content=body, timeout=timeout) as answer,
                aclosing(_lines(answer)) as lines,
            ):
                async for line in lines:
                    read = decode(Line, line)
                    if read.result is None:
                        problem = read.error
                        raise EtcdError(f"{server}: {problem.message if problem else 'no watch'}")
                    yield read.result
        except (httpx.HTTPError, httpx.StreamError, msgspec.MsgspecError) as error:
            self._turn(server)
            raise EtcdError(f"{server}: {error or type(error).__name__}") from None
        raise EtcdError(f"{server}: the watch has ended")


async def _lines(answer: httpx.Response) -> AsyncGenerator[bytes, None]:
    rest = b""
    async for part in answer.aiter_bytes():
        *whole, rest = (rest + part).split(b"\n") if b"\n" in part else (rest + part,)
        for line in whole:
            if line:
                yield line
        if len(rest) > ANSWER_MAX:
            raise httpx.ReadError(f"a message has more than {ANSWER_MAX} bytes")
