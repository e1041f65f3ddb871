"""Calls of servers outside that speak bytes: certificates, deadlines, kept connections."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
import trio
from trio.testing import MockClock

from sim.api.auth.authenticator import Pending, Rejected
from sim.api.auth.authenticators import oidc, token_webhook
from sim.api.auth.authenticators.oidc import IssuerKeys
from sim.api.auth.authenticators.token_webhook import WebhookTokens
from sim.app.receivers import Receiver
from sim.app.serving.remote import TIMEOUT_S, Issuer, Remote, Webhook
from sim.kernel import OutsideAnswer, OutsideRequest
from sim.kernel.outside import DEADLINE_EXCEEDED
from sim.wire.authority import Authority
from sim.wire.outside.calls import IDLE_S, Exchanger
from sim.wire.outside.connections import UNREADABLE_ROOTS
from sim.wire.outside.passages import open_passage
from sim.wire.patience import TICK_S
from sim.wire.tls import Pair, client_context, server_context

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=b\r\n\r\n"
Answer = Callable[[trio.abc.Stream, bytes], Awaitable[None]]


class Server:
    """A server.  heads: of all requests; opened: the number of its connections"""

    def __init__(self, port: int) -> None:
        self.port = port
        self.heads: list[bytes] = []
        self.opened = 0


async def greet(stream: trio.abc.Stream, head: bytes) -> None:
    await stream.send_all(HEAD + b"hi")


@asynccontextmanager
async def answering(answer: Answer = greet, context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """A server that answers the head of each request."""
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        server = Server(listener.socket.getsockname()[1])

        async def handle(stream: trio.abc.Stream) -> None:
            server.opened += 1
            held = b""
            try:
                while data := bytes(await stream.receive_some(1000)):
                    held += data
                    if held.endswith(b"\r\n\r\n"):
                        server.heads.append(held)
                        await answer(stream, held)
                        held = b""
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass

        shown = listener if context is None else trio.SSLListener(listener, context, https_compatible=True)
        nursery.start_soon(trio.serve_listeners, handle, [shown])
        yield server
        nursery.cancel_scope.cancel()


async def ask(request: OutsideRequest, limit_s: float = 20.0) -> OutsideAnswer:
    exchanger = Exchanger()
    try:
        return await exchanger.exchange(request, limit_s)
    finally:
        exchanger.close()


# --- certificates ---------------------------------------------------------------------------------


def serving(pair: Pair) -> ssl.SSLContext:
    return server_context(pair, Authority("none").pem)


async def failure_with(pair: Pair, roots: bytes, host: str = "localhost") -> str:
    """What a call of a server with a certificate reports, "" for an answer."""
    async with answering(context=serving(pair)) as server:
        url, place = f"https://{host}:{server.port}/", ("127.0.0.1", server.port)
        request = OutsideRequest("GET", url, connect_to=place, authorities=roots)
        answer = await ask(request)
        if not answer.failure:
            assert (answer.code, answer.body) == (200, b"hi")
        return answer.failure


@pytest.mark.slow
async def test_server_certificate_is_judged_by_leaf_chain_name_and_time() -> None:
    authority, other = Authority("outside"), Authority("other")
    leaf = authority.server(("localhost", "127.0.0.1"))
    old = Authority("outside", datetime.now(UTC) - timedelta(days=1000))
    assert await failure_with(leaf, authority.pem) == ""
    # envtest: the CA bundle is the serving certificate itself
    assert await failure_with(leaf, leaf.certificate) == ""
    assert await failure_with(leaf, leaf.certificate, "127.0.0.1") == ""
    assert await failure_with(leaf, other.pem) == "x509: certificate signed by unknown authority"
    assert await failure_with(leaf, other.server(("localhost",)).certificate) == (
        "x509: certificate signed by unknown authority"
    )
    for roots in (authority.pem, leaf.certificate):
        wrong = await failure_with(leaf, roots, "example.com")
        assert wrong == "x509: certificate is not valid for example.com"
    expired = old.server(("localhost",))
    for roots in (old.pem, expired.certificate):
        assert await failure_with(expired, roots) == "x509: certificate has expired or is not yet valid"
    assert await failure_with(leaf, b"no certificate") == UNREADABLE_ROOTS


def test_flags_of_a_client_are_the_same_for_all_versions_of_python() -> None:
    flags = client_context(Authority("a").pem).verify_flags
    assert flags & ssl.VERIFY_X509_PARTIAL_CHAIN
    assert not flags & ssl.VERIFY_X509_STRICT


@pytest.mark.parametrize(
    ("first", "failure"),
    [
        (b"HTTP/1.1 400 x\r\n\r\n", "http: server gave HTTP response to HTTPS client"),
        (b"SSH-2.0-x\r\n\r\n", "tls: first record does not look like a TLS handshake"),
        (b"", "EOF"),
    ],
)
async def test_server_without_tls_is_named_so(first: bytes, failure: str) -> None:
    async def speak(stream: trio.abc.Stream) -> None:
        await stream.receive_some(10_000)
        await stream.send_all(first)

    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, speak, [listener])
        url = f"https://127.0.0.1:{listener.socket.getsockname()[1]}/"
        assert (await ask(OutsideRequest("GET", url))).failure == failure
        nursery.cancel_scope.cancel()


# --- addresses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "failure"),
    [
        ("https://127.0.0.1:99999/", "dial tcp: address 99999: invalid port"),
        ("https://127.0.0.1:0/", "dial tcp 127.0.0.1:0: connect: connection refused"),
        ("https://[x]/", "dial tcp: lookup x: no such host"),
        ("https://℀.invalid/", "dial tcp: lookup ℀.invalid: no such host"),
        (f"https://{'a' * 70}.invalid/", f"dial tcp: lookup {'a' * 70}.invalid: no such host"),
        ("https://a..invalid/", "dial tcp: lookup a..invalid: no such host"),
        ("https://%00.invalid/", 'parse "https://%00.invalid/": invalid URL escape "%00"'),
        ("https://[::1", "parse \"https://[::1\": missing ']' in host"),
        ("mailto:x", 'unsupported protocol scheme "mailto"'),
    ],
)
async def test_address_that_cannot_be_called_is_a_failure_of_the_call(url: str, failure: str) -> None:
    assert (await ask(OutsideRequest("POST", url))).failure == failure


async def test_port_zero_is_not_the_default_port() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        request = OutsideRequest("GET", "https://a/", connect_to=("127.0.0.1", port))
        refused = f"dial tcp 127.0.0.1:{port}: connect: connection refused"
        assert (await ask(request)).failure == refused


@pytest.mark.parametrize("headers", [(("a b", "c"),), (("", "c"),), (("X-Remote-User", "a\r\nb: c"),)])
async def test_header_that_cannot_be_sent_is_a_failure_of_the_call(
    headers: tuple[tuple[str, str], ...],
) -> None:
    async with answering() as server:
        url = f"http://127.0.0.1:{server.port}/"
        answer = await ask(OutsideRequest("GET", url, headers))
        assert answer.failure.startswith("net/http: invalid header field ")
        assert server.heads == []


# --- one exchange ---------------------------------------------------------------------------------


@pytest.mark.parametrize("slow", ["head", "body"])
async def test_one_deadline_bounds_an_answer_that_comes_byte_by_byte(
    slow: str, autojump_clock: trio.abc.Clock
) -> None:
    async def drip(stream: trio.abc.Stream, head: bytes) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\n" if slow == "head" else HEAD.replace(b"2\r", b"999\r"))
        while True:
            await trio.sleep(1)
            await stream.send_all(b"x")

    began = trio.current_time()
    async with answering(drip) as server:
        answer = await ask(OutsideRequest("GET", f"http://127.0.0.1:{server.port}/"), 10.0)
    assert answer.failure == DEADLINE_EXCEEDED
    assert answer.took_us == 30_000_000  # all of the request's timeout
    assert 10.0 <= trio.current_time() - began <= 10.0 + 2 * TICK_S


# --- pauses of the process ------------------------------------------------------------------------


@pytest.fixture
def clock() -> MockClock:
    """Trio's time passes only by pauses, and so a limit ends only by one."""
    return MockClock()


def after_a_pause(clock: MockClock, first: bytes, rest: bytes) -> Answer:
    """An answer of two parts, with a pause of the process before each."""

    async def answer(stream: trio.abc.Stream, head: bytes) -> None:
        for part in (first, rest):
            clock.jump(100.0)
            for _ in range(20):
                await trio.lowlevel.checkpoint()
            await stream.send_all(part)

    return answer


def secured(method: str, port: int, authority: Authority) -> OutsideRequest:
    """A request over TLS."""
    place = ("127.0.0.1", port)
    return OutsideRequest(method, "https://localhost/", connect_to=place, authorities=authority.pem)


async def test_answer_after_a_pause_of_the_process_is_in_time(clock: MockClock) -> None:
    async with answering(after_a_pause(clock, HEAD, b"hi")) as server:
        answer = await ask(OutsideRequest("GET", f"http://127.0.0.1:{server.port}/"), 10.0)
    assert (answer.code, answer.body, answer.failure) == (200, b"hi", "")
    assert answer.took_us < 3_000_000  # a tenth of the request's timeout


async def test_handshake_after_a_pause_of_the_process_is_in_time(clock: MockClock) -> None:
    authority = Authority("outside")
    context = serving(authority.server(("localhost",)))

    async def paused(stream: trio.SocketStream) -> None:
        clock.jump(100.0)
        for _ in range(20):
            await trio.lowlevel.checkpoint()
        secured = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        await secured.receive_some(1000)
        await greet(secured, b"")

    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, paused, [listener])
        request = secured("GET", listener.socket.getsockname()[1], authority)
        assert (await ask(request, 60.0)).failure == ""
        nursery.cancel_scope.cancel()


async def test_answer_passed_through_outlives_pauses_of_the_process(clock: MockClock) -> None:
    authority = Authority("outside")
    context = serving(authority.server(("localhost",)))
    async with answering(after_a_pause(clock, HEAD, b"hi"), context) as server:
        passage = await open_passage(secured("GET", server.port, authority), 10.0)
        assert b"".join([part async for part in passage.parts()]) == b"hi"


async def test_answer_passed_through_has_one_deadline(clock: MockClock) -> None:
    async def drip(stream: trio.abc.Stream, head: bytes) -> None:
        await stream.send_all(HEAD.replace(b"2\r", b"999\r"))
        while True:
            await trio.sleep(1)
            await stream.send_all(b"x")

    came = 0
    authority = Authority("outside")
    async with answering(drip, serving(authority.server(("localhost",)))) as server:
        passage = await open_passage(secured("GET", server.port, authority), 10.0)
        clock.autojump_threshold = 0  # from here on
        with pytest.raises(trio.TooSlowError):
            async for part in passage.parts():
                came += len(part)
    assert 9 <= came <= 11


# --- connections ----------------------------------------------------------------------------------


async def test_connections_are_kept_and_cookies_are_not() -> None:
    exchanger = Exchanger()
    async with answering() as server:
        request = OutsideRequest("GET", f"http://127.0.0.1:{server.port}//x/./y?z")
        for _ in range(3):
            answer = await exchanger.exchange(request, 20.0)
            assert (answer.code, answer.body) == (200, b"hi")
        assert server.opened == 1
        assert server.heads[2].startswith(b"GET //x/./y?z HTTP/1.1\r\nHost: 127.0.0.1:")
        assert b"ookie" not in server.heads[2]
        exchanger.close()


async def test_kept_connection_is_closed_with_its_server_or_after_its_time(
    mock_clock: MockClock,
) -> None:
    kept: list[trio.abc.Stream] = []

    async def keep(stream: trio.abc.Stream, head: bytes) -> None:
        await greet(stream, head)
        kept.append(stream)

    exchanger = Exchanger()
    async with answering(keep) as server:
        request = OutsideRequest("GET", f"http://127.0.0.1:{server.port}/")
        assert (await exchanger.exchange(request, 20.0)).code == 200
        assert exchanger.kept == 1
        await kept[0].aclose()
        while exchanger.kept:
            await trio.lowlevel.checkpoint()
        for _ in range(2):  # the second one on the same connection
            assert (await exchanger.exchange(request, 20.0)).code == 200
            await trio.testing.wait_all_tasks_blocked()
            mock_clock.jump(IDLE_S - 1)
            await trio.testing.wait_all_tasks_blocked()
            assert exchanger.kept == 1
        assert server.opened == 2
        mock_clock.jump(2)
        await trio.testing.wait_all_tasks_blocked()
        assert exchanger.kept == 0
        exchanger.close()


async def test_get_is_sent_again_after_a_kept_connection_was_closed() -> None:
    async def once(stream: trio.abc.Stream, head: bytes) -> None:
        await greet(stream, head)
        await stream.receive_some(1000)  # the next request
        await stream.aclose()

    exchanger = Exchanger()
    async with answering(once) as server:
        url = f"http://127.0.0.1:{server.port}/"
        assert (await exchanger.exchange(OutsideRequest("GET", url))).code == 200
        assert (await exchanger.exchange(OutsideRequest("GET", url))).code == 200
        assert (await exchanger.exchange(OutsideRequest("POST", url))).failure == "EOF"
        assert server.opened == 2
        exchanger.close()


async def test_answer_before_the_end_of_a_large_request_is_read() -> None:
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")

        async def early(stream: trio.abc.Stream) -> None:
            await stream.receive_some(10)
            await stream.send_all(b"HTTP/1.1 413 x\r\nContent-Length: 0\r\n\r\n")
            await trio.sleep_forever()

        nursery.start_soon(trio.serve_listeners, early, [listener])
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/"
        answer = await ask(OutsideRequest("POST", url, body=bytes(16 << 20)))
        assert answer.code == 413
        nursery.cancel_scope.cancel()


# --- authenticators -------------------------------------------------------------------------------


async def test_slow_head_of_a_token_webhook_or_issuer_is_an_error_after_one_deadline(
    autojump_clock: trio.abc.Clock,
) -> None:
    async def drip(stream: trio.abc.Stream, head: bytes) -> None:
        while True:
            await trio.sleep(1)
            await stream.send_all(b"H")

    async with answering(drip) as server:
        url = f"http://127.0.0.1:{server.port}"
        tokens = WebhookTokens((), 0, lambda: 0)
        keys = IssuerKeys()
        webhook = Webhook(Receiver(url, {}, None), tokens, "authentication.k8s.io/v1")
        remote = Remote(Issuer(url, keys), webhook, lambda: 0)
        began = trio.current_time()
        asked = [Pending(token_webhook.SOURCE, f"t{i}") for i in range(20)]
        async with trio.open_nursery() as nursery:
            for each in (*asked, Pending(oidc.SOURCE, "")):
                nursery.start_soon(remote.answer, each)
        assert TIMEOUT_S <= trio.current_time() - began <= TIMEOUT_S + 2 * TICK_S
        late = f"POST {url}: no answer within 10 s"
        assert {tokens.authenticate(each.token, ()) for each in asked} == {Rejected((late,))}
        assert (keys.keys, keys.fetched_us) == ((), 0)
