"""A served cluster with random servers as webhooks, authenticators and aggregated APIs.

python -m tests.bench.outside_fuzz [--answers 10000] [--seed 1]
python -m tests.bench.outside_fuzz --pieces [--answers 10000] [--seed 1]

Requests make the server call servers outside: validating, mutating and conversion webhooks, the
token webhook, the issuer of ID tokens, the mode Webhook, the audit webhook, and a server behind an
APIService.  All of them get random answers: heads, chunks, redirects, encodings, JSON, YAML and
certificates.  A bystander gets /version on a connection that it keeps and on new ones.  Three
servers, each at a pace of its own, get a part of the answers.  The program fails if a server ends,
if the bystander is not served, if a descriptor is left once the strangers have closed their
connections, if a piece of work takes too much processor time (`tests.bench.pieces`), if the log has
a traceback, or if the replay of the journal differs.

The second form gives the same answers to the readers alone, in pieces as a connection gives them,
and fails if an error leaves them or if one piece takes more than PIECE_S of processor time.
"""

from __future__ import annotations

import argparse
import base64
import json
import signal
import socket
import ssl
import struct
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import trio
import yaml

from sim.api.admission.webhooks.review import verdict_of
from sim.api.store import Question
from sim.api.webhooks.reviews import BadReview, decoded_review, decoded_status
from sim.app.parts.rest_answers import read_answer
from sim.app.parts.webhooks import load_answer_yaml
from sim.kernel.outside import ANSWER_MAX
from sim.wire.authority import Authority
from sim.wire.outside.answers import AnswerReader, BrokenAnswer
from sim.wire.outside.connections import RECEIVE_BYTES
from sim.wire.stack import make_room
from sim.wire.tls import server_context
from tests.bench.heavy import PIECE_MS_MAX, longest_of
from tests.bench.random_answers import answer_of, good
from tests.bench.wire_fuzz import (
    GONE,
    HOST,
    Outcome,
    Server,
    encrypted,
    judged,
    serving,
    settle,
    stand_by,
    trusting,
)
from tests.cluster.cli.test_api_services import APIS, GROUP, api_service, service
from tests.cluster.cli.test_conversion_webhooks import GROUP as WIDGETS
from tests.cluster.cli.test_conversion_webhooks import widget, widgets
from tests.cluster.cli.test_outside_webhooks import HOOKS, MAPS, configuration

PARALLEL = 48  # most of the time a request waits, for a deadline or between two tries of the server
PACES = ("1", "5", "20")  # each for a part of the answers
BYSTANDER_S = 0.2  # between two turns
PIECE_S = 0.2  # processor time of the longest piece of work
REQUEST_S = 30.0  # for one request, on a busy machine
CORE = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICES = "/api/v1/namespaces/default/services"
OBJECTS = f"/apis/{WIDGETS}/v1/namespaces/default/widgets"
FLUNDERS = f"/apis/{GROUP}/v1/flunders"
_trusting = trusting()  # once: it reads all certificates of the machine


# --- the strangers --------------------------------------------------------------------------------


class Strangers:
    """Servers that give random answers.  limit: the number of answers after which `over` is set"""

    def __init__(self, random: Random, limit: int) -> None:
        self.random, self.limit = random, limit
        self.given: Counter[str] = Counter()
        self.over = trio.Event()
        self.ports: dict[str, int] = {}
        self._open: dict[trio.SocketStream, None] = {}

    def close(self) -> None:
        """Close all connections, now and as they come."""
        self.over.set()
        for transport in self._open:
            transport.socket.close()

    async def handle(self, stream: trio.abc.Stream) -> None:
        """Answer requests until the connection ends."""
        transport = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
        assert isinstance(transport, trio.SocketStream)
        self._open[transport] = None
        with suppress(*GONE, ssl.SSLError, ValueError):
            while not self.over.is_set() and await self._answer(stream):
                pass
        del self._open[transport]
        if self.random.random() < 0.3:
            with suppress(OSError):
                transport.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.socket.close()

    async def _answer(self, stream: trio.abc.Stream) -> bool:
        """Answer one request; True if the connection is kept."""
        random = self.random
        held = b""
        while b"\r\n\r\n" not in held:
            data = bytes(await stream.receive_some(65536))
            if not data:
                return False
            held += data
        head, _, body = held.partition(b"\r\n\r\n")
        lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
        wanted = int(lengths[0].partition(b":")[2]) if lengths else 0
        while len(body) < wanted and (data := bytes(await stream.receive_some(65536))):
            body += data
        try:
            asked = json.loads(body) if body else None
        except ValueError:
            asked = None
        self._count(str(asked.get("kind")) if isinstance(asked, dict) else head[:30].split(b" ")[0].decode())
        if b"/openapi" not in head and asked is None and random.random() < 0.3:
            text = json.dumps(good(None)).encode()
            await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text))
            return True
        sent = answer_of(random, asked)
        if random.random() < 0.02:  # byte by byte, until the caller has enough
            with trio.move_on_after(12):
                for at in range(len(sent)):
                    await stream.send_all(sent[at : at + 1])
                    await trio.sleep(0.05)
            return False
        await stream.send_all(sent)
        return random.random() < 0.3

    def _count(self, kind: str) -> None:
        self.given[kind] += 1
        if self.given.total() % 500 == 0:
            print(f"{self.given.total()} answers", file=sys.stderr, flush=True)
        if self.given.total() >= self.limit:
            self.over.set()

    @asynccontextmanager
    async def listening(self, authority: Authority) -> AsyncIterator[None]:
        """Listen with certificates of each kind, and without one."""
        old = Authority("old", datetime.now(UTC) - timedelta(days=900))
        names = (HOST, "localhost", "wardle.default.svc")
        pairs = {
            "good": authority.server(names),
            "name": authority.server(("example.com",)),
            "other": Authority("other").server(names),
            "old": old.server(names),
        }
        async with trio.open_nursery() as nursery:
            for kind in (*pairs, "plain"):
                [listener] = await trio.open_tcp_listeners(0, host=HOST)
                self.ports[kind] = listener.socket.getsockname()[1]
                shown: Any = listener
                if kind in pairs:
                    context = server_context(pairs[kind], authority.pem)
                    context.set_alpn_protocols(["http/1.1"])
                    shown = trio.SSLListener(listener, context, https_compatible=True)
                nursery.start_soon(trio.serve_listeners, self.handle, [shown])
            yield
            nursery.cancel_scope.cancel()


# --- the requests ---------------------------------------------------------------------------------


async def send(
    server: Server, method: str, path: str, body: Any = None, token: str = "", more: str = ""
) -> int:
    """Send one request on a connection of its own; the code of the answer, 0 for none."""
    data = b"" if body is None else json.dumps(body).encode()
    token = token or server.token
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{more}Connection: close\r\n"
    )
    media = "application/json-patch+json" if method == "PATCH" else "application/json"
    head += f"Content-Type: {media}\r\nContent-Length: {len(data)}\r\n\r\n"
    with trio.move_on_after(REQUEST_S), suppress(*GONE, ssl.SSLError):
        stream = await encrypted(server.port, _trusting)
        try:
            await stream.send_all(head.encode() + data)
            answer = b""
            while part := bytes(await stream.receive_some(65536)):
                answer += part
            return int(answer[9:12]) if answer else 0
        finally:
            stream.transport_stream.socket.close()
    return 0


def address(random: Random, ports: dict[str, int]) -> str:
    """The address of a stranger, or one that cannot be called."""
    if random.random() < 0.1:
        return random.choice(
            [
                "https://127.0.0.1:99999/",
                "https://[x]/",
                "https://℀.invalid/",
                "https://127.0.0.1:0/",
                "https://a..b/",
            ]
        )
    kind = random.choices(list(ports), [20, 1, 1, 1, 1])[0]
    return f"https://{HOST}:{ports[kind]}/{random.choice(['', '/x', 'a/./b', '%2e%2e'])}"


async def prepared(
    server: Server, strangers: Strangers, authority: Authority, worker: int
) -> list[tuple[Callable[[], Any], float]]:
    """The kinds of requests of one worker, with their weights."""
    random, ports = strangers.random, strangers.ports
    bundle = base64.b64encode(authority.pem).decode()
    name = f"hook-{worker}"

    async def hook() -> None:
        kind, plural, wanted = random.choice(
            [
                ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "judge"),
                ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "mutate"),
            ]
        )
        trusted = random.choice(
            [
                bundle,
                bundle,
                bundle,
                "eA==",
                base64.b64encode(b"-----BEGIN CERTIFICATE-----\nxx\n-----END CERTIFICATE-----").decode(),
            ]
        )
        client = {"url": address(random, ports), "caBundle": trusted}
        more = {
            "timeoutSeconds": random.choice([1, 2]),
            "objectSelector": {"matchLabels": {"worker": str(worker)}},
        }
        body = configuration(kind, client, **more)
        body["metadata"]["name"] = name
        await send(server, "POST", f"{HOOKS}/{plural}", body)
        for _ in range(random.randint(1, 6)):
            made = {"metadata": {"generateName": wanted, "labels": {"worker": str(worker)}}}
            if random.random() < 0.5:
                made["metadata"]["name"] = wanted
            await send(server, "POST", f"{MAPS}?dryRun=All", made)
        await send(server, "DELETE", f"{HOOKS}/{plural}/{name}")

    async def convert() -> None:
        await send(server, "GET", f"/apis/{WIDGETS}/v2/namespaces/default/widgets/a")

    async def token() -> None:
        await send(server, "GET", "/api/v1/namespaces", token=f"t{random.randrange(10**9)}")

    async def identity() -> None:
        claims = {"iss": f"https://{HOST}:{ports['good']}", "aud": "app", "sub": "c", "exp": 2**32}
        parts = [json.dumps(each).encode() for each in ({"alg": "RS256"}, claims)]
        text = ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (*parts, b"x"))
        await send(server, "GET", "/api/v1/namespaces", token=text)

    async def access() -> None:
        user = f"Impersonate-User: u{random.randrange(10**9)}\r\n"
        await send(server, "GET", "/api/v1/namespaces", more=user)

    async def aggregated() -> None:
        more = random.choice(
            [
                "",
                "",
                "Accept: application/yaml\r\n",
                "Accept-Encoding: gzip\r\n",
                "Connection: Upgrade\r\nUpgrade: x\r\n",
            ]
        )
        await send(
            server,
            "GET",
            random.choice([FLUNDERS, f"{FLUNDERS}/a", f"/apis/{GROUP}/v1", "/openapi/v2", "/openapi/v3"]),
            more=more,
        )

    return [(hook, 3), (convert, 2), (token, 2), (identity, 0.2), (access, 2), (aggregated, 3)]


async def fuzz(server: Server, strangers: Strangers, authority: Authority) -> Outcome:
    """Send requests until the strangers have answered often enough."""
    outcome = Outcome()
    before = server.descriptors
    definition = widgets(
        url=f"https://{HOST}:{strangers.ports['good']}/c", caBundle=base64.b64encode(authority.pem).decode()
    )
    definition["apiVersion"] = "apiextensions.k8s.io/v1"
    await send(server, "POST", CORE, definition)
    while await send(server, "POST", OBJECTS, widget("a", "v1", size="1")) != 201:  # noqa: ASYNC110
        await trio.sleep(0.05)
    await send(server, "POST", SERVICES, service())
    await send(server, "POST", APIS, api_service())

    async def work(worker: int) -> None:
        kinds = await prepared(server, strangers, authority, worker)
        while not strangers.over.is_set() and server.process.poll() is None:
            [act] = strangers.random.choices([act for act, _ in kinds], [weight for _, weight in kinds])
            await act()

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stand_by, server, outcome, strangers.over, BYSTANDER_S)
            async with trio.open_nursery() as workers:
                for worker in range(PARALLEL):
                    workers.start_soon(work, worker)
            strangers.over.set()
    except* GONE as gone:
        outcome.failures.append(f"the bystander was not served: {gone.exceptions[0]!r}")
    outcome.codes.update(strangers.given)
    strangers.close()
    await settle(server, before, outcome)
    return outcome


# --- the readers alone ----------------------------------------------------------------------------

REVIEWS: list[Any] = [
    {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "u", "name": "mutate"},
    },
    {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"},
    {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"},
]


def read(data: bytes, review: Any, pieces: list[float]) -> str:
    """Read an answer as the callers do.  Returns what became of it.  pieces: processor times"""
    reader, body = AnswerReader("POST", ANSWER_MAX), bytearray()

    def timed(work: Callable[[], Any]) -> Any:
        began_s = process_time()
        try:
            return work()
        finally:
            pieces.append(process_time() - began_s)

    try:
        for at in range(0, len(data), RECEIVE_BYTES):
            body += timed(partial(reader.feed, data[at : at + RECEIVE_BYTES]))
            if reader.is_done:
                break
        if not reader.is_done:
            body += reader.end()
        head = reader.head
        assert head is not None
        media = next(iter(head.all("Content-Type")), "")
        value, failure = timed(lambda: read_answer(head.code, media, bytes(body), load_answer_yaml))
        if failure:
            return "refused"
        if review["kind"] == "AdmissionReview":
            question = Question("a", "", None, review, 1)
            decoded = timed(lambda: decoded_review(value, review))
            timed(lambda: verdict_of(decoded, question, True))
        else:
            timed(lambda: decoded_status(value, review["kind"]))
    except BrokenAnswer:
        return "broken"
    except (BadReview, ValueError):
        return "no review"
    return "read"


def run_pieces(answers: int, seed: int) -> Outcome:
    """Give answers to the readers."""
    make_room()
    random, outcome = Random(seed), Outcome()
    slowest: list[tuple[float, bytes]] = []
    for _ in range(answers):
        review = random.choice(REVIEWS)
        data = answer_of(random, review)
        pieces: list[float] = []
        outcome.codes[read(data, review, pieces)] += 1
        slowest = sorted([*slowest, (max(pieces, default=0.0), data[:200])], reverse=True)[:5]
    for took_s, begin in slowest:
        print(f"{took_s:.3f} s: {begin!r}")
    if slowest and slowest[0][0] > PIECE_S:
        outcome.failures.append(f"a piece took {slowest[0][0]:.3f} s of processor time")
    return outcome


# --- the server -----------------------------------------------------------------------------------


def kubeconfig(folder: Path, name: str, port: int) -> str:
    cluster = {"server": f"https://{HOST}:{port}/{name}", "certificate-authority": str(folder / "ca.pem")}
    value = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "s"}}],
        "clusters": [{"name": "s", "cluster": cluster}],
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(value))
    return str(path)


def scenario(folder: Path, port: int) -> Path:
    """The scenario of a cluster that consults strangers for everything."""
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "RequestResponse"}]}
    (folder / "policy.yaml").write_text(yaml.safe_dump(policy))
    flags = {
        "authentication-token-webhook-config-file": kubeconfig(folder, "token", port),
        "authorization-mode": "RBAC,Webhook",
        "authorization-webhook-config-file": kubeconfig(folder, "access", port),
        "audit-policy-file": str(folder / "policy.yaml"),
        "audit-webhook-config-file": kubeconfig(folder, "audit", port),
        "audit-webhook-batch-max-wait": "1s",
        "oidc-issuer-url": f"https://{HOST}:{port}",
        "oidc-client-id": "app",
        "oidc-ca-file": str(folder / "ca.pem"),
    }
    spec = {"cluster": {"naming": "kubernetes", "apiServer": {"flags": flags}}, "duration": "1m"}
    value = {
        "apiVersion": "orrery.dev/v1",
        "kind": "Scenario",
        "metadata": {"name": "strangers"},
        "spec": spec,
    }
    path = folder / "strangers.yaml"
    path.write_text(yaml.safe_dump(value))
    return path


async def run(folder: Path, answers: int, seed: int, pace: str) -> Outcome:
    """Serve at a pace, and give so many answers."""
    authority = Authority("strangers")
    (folder / "ca.pem").write_bytes(authority.pem)
    pieces = folder / "pieces"
    pieces.touch()
    strangers = Strangers(Random(seed), answers)
    async with strangers.listening(authority):
        port = strangers.ports["good"]
        options = [str(scenario(folder, port)), "--service-address", f"default/wardle={HOST}:{port}"]
        program = ("tests.bench.pieces", str(pieces))
        serve = serving(None, *options, "--pace", pace, program=program)
        server = await trio.to_thread.run_sync(serve.__enter__)
        pieces.write_text("")  # of the start
        try:
            outcome = await fuzz(server, strangers, authority)
            await trio.to_thread.run_sync(judged, server, outcome, signal.SIGTERM)
            for line, count in Counter(line[:200] for line in server.log).most_common(20):
                print(count, line)
        finally:
            serve.__exit__(None, None, None)
    longest_ms = max(longest_of(pieces).values())
    print(f"pace {pace}: longest piece {longest_ms:.1f} ms")
    if longest_ms > PIECE_MS_MAX:
        outcome.failures.append(f"a piece took {longest_ms:.1f} ms")
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--answers", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pieces", action="store_true", help="the readers alone, without a server")
    chosen = parser.parse_args()
    if chosen.pieces:
        outcome = run_pieces(chosen.answers, chosen.seed)
        print(outcome)
        return bool(outcome.failures)
    failed = False
    for n, pace in enumerate(PACES):
        with TemporaryDirectory() as name:
            part = chosen.answers // len(PACES)
            outcome = trio.run(run, Path(name), part, chosen.seed + n, pace)
        print(outcome, flush=True)
        failed = failed or bool(outcome.failures)
    return failed


if __name__ == "__main__":
    sys.exit(main())
