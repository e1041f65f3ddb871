"""The HTTP front on a live cluster: replies while time is paused, streams, errors, certificates,
replay.
"""

from __future__ import annotations

import json
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache, partial
from math import inf
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
import trio.testing
from trio_websocket import ConnectionClosed, ConnectionRejected, WebSocketConnection, wrap_client_stream

from actors.apiserver.handlers import Handlers
from sim.api.auth.keys import SigningKey
from sim.api.messages.protobuf import decode
from sim.api.refusals import Steps
from sim.api.types import UserInfo
from sim.api.verbs.call import Call
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.app.serving.front import make_front
from sim.app.serving.identities import Files
from sim.errors import first_of
from sim.ident import NAMES
from sim.kernel import NEVER_US, Operation
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import SECOND
from sim.wire.authority import Authority
from sim.wire.exchange import BODY_MAX, OPENED, PEER
from sim.wire.http.app import Application
from sim.wire.http.chain.front import Front
from sim.wire.http.fronts.server import serve
from sim.wire.tls import server_context
from tests.actor.fronts import CHOSEN

N = NAMES["kubernetes"]
TOKENS = {"root": UserInfo("admin", (N.group_masters,))}
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
JSON = {"Content-Type": "application/json"}
pytestmark = pytest.mark.usefixtures("each_front")


@cache
def signing_key() -> SigningKey:
    """The key of all servers of these tests: to make one takes a while."""
    return SigningKey.new()


def front_of(cluster: Cluster, authorities: Sequence[bytes] = ()) -> Front:
    files = Files.read(cluster.options.authentication, signing_key())
    return make_front(cluster, TOKENS, "127.0.0.1", files, authorities)


@asynccontextmanager
async def served(
    *,
    pace: float = 0,
    nodes: int = 0,
    replay: list[Operation] | None = None,
    context: ssl.SSLContext | None = None,
    plan: ClusterPlan | None = None,
    connections_max: int | None = None,
    authorities: Sequence[bytes] = (),
) -> AsyncIterator[tuple[Cluster, httpx.AsyncClient]]:
    """A cluster without nodes; time is paused unless a pace is given."""
    async with (
        Cluster(plan, naming="kubernetes", nodes=nodes, replay=replay) as cluster,
        trio.open_nursery() as nursery,
    ):
        cluster.kernel.set_rate(pace)
        if pace:
            cluster.kernel.set_goal(NEVER_US)
        app = Application(front_of(cluster, authorities).answer)
        begin = partial(serve, direct=CHOSEN.direct)
        port = await nursery.start(begin, app, "127.0.0.1", 0, context, connections_max)
        scheme = "https" if context else "http"
        async with httpx.AsyncClient(
            base_url=f"{scheme}://127.0.0.1:{port}", headers={"Authorization": "Bearer root"}, verify=False
        ) as client:
            yield cluster, client
        nursery.cancel_scope.cancel()


def config_map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"k": "v"}}


async def test_all_answers_carry_the_directives_of_transport_security() -> None:
    flags = {"strict-transport-security-directives": "max-age=9,preload"}
    for given, wanted in (({}, None), (flags, "max-age=9; preload")):
        async with served(plan=ClusterPlan(api_server=ComponentPlan(flags=given))) as (_, client):
            answers = [await client.get(path) for path in (MAPS, "/healthz", "/apis/nope")]
            assert {each.headers.get("Strict-Transport-Security") for each in answers} == {wanted}


async def test_writes_and_reads_are_answered_while_time_is_paused() -> None:
    async with served() as (cluster, client):
        made = await client.post(MAPS, json=config_map("a"))
        assert made.status_code == 201
        assert made.json()["metadata"]["managedFields"][0]["manager"] == "python-httpx"
        listed = (await client.get(MAPS)).json()
        assert [item["metadata"]["name"] for item in listed["items"]] == ["a"]
        assert "kind" not in listed["items"][0]
        gone = await client.delete(f"{MAPS}/a")
        assert gone.json()["status"] == "Success"
        assert (await client.get(f"{MAPS}/a")).status_code == 404
        assert cluster.kernel.now_us == 0


@pytest.mark.parametrize("path", [MAPS, "/api/v1/configmaps", "/api/v1/namespaces"])
async def test_pages_of_any_scope_make_up_the_whole_list(path: str) -> None:
    async with served() as (_, client):
        for name in ("a", "b", "c"):
            await client.post("/api/v1/namespaces", json={"metadata": {"name": name}})
            await client.post(MAPS, json=config_map(name))
        whole = (await client.get(path)).json()["items"]
        assert len(whole) > 2
        for limit in (1, 2):
            found, more = [], ""
            while True:
                page = (await client.get(path, params={"limit": limit, "continue": more})).json()
                found += page["items"]
                more = page["metadata"].get("continue", "")
                if not more:
                    break
            assert found == whole


async def test_one_revision_is_encoded_once_for_all_its_readers() -> None:
    async with served() as (cluster, client):
        await client.post(MAPS, json=config_map("a"))
        first = (await client.get(f"{MAPS}/a")).content
        item = cluster.request("get", "configmaps", "default", "a").item
        assert item is not None
        assert item.raw is not None
        (kept,) = item.raw.values()
        await client.get(MAPS)
        assert item.raw == {"bare": kept}
        assert first.endswith(kept[1:] + b"\n")


async def test_a_watch_streams_events_as_they_come_and_ends_at_its_time_out() -> None:
    async with (
        served(pace=60) as (_, client),
        client.stream("GET", f"{MAPS}?watch=1&labelSelector=l&timeoutSeconds=60") as stream,
    ):
        assert stream.status_code == 200
        lines = stream.aiter_lines()
        await client.post(MAPS, json={"metadata": {"name": "a", "labels": {"l": "x"}}})
        event = json.loads(await anext(lines))
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")
        await client.delete(f"{MAPS}/a")
        with trio.fail_after(30):
            rest = [json.loads(line) async for line in lines]
        assert [event["type"] for event in rest] == ["DELETED"]


async def test_a_backlog_of_a_watch_is_written_part_by_part_as_its_client_takes_it() -> None:
    letters = "abcdefghij"
    sizes: list[int] = []
    asked, begun, awake, told = trio.Event(), trio.Event(), trio.Event(), trio.Event()

    async def send(message: Any) -> None:
        sizes.append(len(message.get("body", b"")))
        if sizes[-1]:
            begun.set()
            await awake.wait()
        if sum(sizes) > len(letters) * 100_000:
            told.set()

    async def receive() -> Any:
        if asked.is_set():
            await trio.sleep_forever()
        asked.set()
        return {"type": "http.request", "body": b"", "more_body": False}

    async with Cluster(naming="kubernetes") as cluster, trio.open_nursery() as nursery:
        cluster.kernel.set_rate(60)
        cluster.kernel.set_goal(NEVER_US)
        cluster.request("create", "configmaps", "default", body=json.dumps(config_map("a")).encode())
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": MAPS,
            "raw_path": MAPS.encode(),
            "query_string": b"watch=1",
            "root_path": "",
            "headers": [(b"authorization", b"Bearer root")],
            "extensions": {PEER: None, OPENED: []},
        }
        nursery.start_soon(Application(front_of(cluster).answer), scope, receive, send)
        with trio.fail_after(30):
            await begun.wait()
        for letter in letters:
            body = json.dumps({"metadata": {"name": "a"}, "data": {"k": letter * 100_000}}).encode()
            assert cluster.request("update", "configmaps", "default", "a", body=body).ok
        await trio.sleep(0.1)  # real seconds: what was written is seen
        awake.set()
        with trio.fail_after(30):
            await told.wait()
        nursery.cancel_scope.cancel()
    assert max(sizes) < 110_000


async def test_a_client_that_goes_ends_its_watch_in_the_simulation() -> None:
    async with served(pace=1) as (cluster, client):
        async with client.stream("GET", f"{MAPS}?watch=1"):
            assert cluster.kernel.gate.journal[-1].name == "request"
        with trio.move_on_after(1):  # real seconds for the server to notice
            await trio.testing.wait_all_tasks_blocked(0.05)
        assert cluster.kernel.gate.journal[-1].name == "watch-stop"


async def asked(client: httpx.AsyncClient, method: str, path: str, body: bytes = b"") -> trio.SocketStream:
    """A connection on which a request has been sent."""
    assert client.base_url.port is not None
    stream = await trio.open_tcp_stream("127.0.0.1", client.base_url.port)
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: x",
        "Authorization: Bearer root",
        f"Content-Length: {len(body)}",
    ]
    await stream.send_all("\r\n".join([*lines, "", ""]).encode() + body)
    return stream


async def gone(
    client: httpx.AsyncClient, method: str, path: str, body: bytes = b"", after_s: float = 0
) -> None:
    """A client that goes so long after its request."""
    stream = await asked(client, method, path, body)
    await trio.sleep(after_s)
    await stream.aclose()


async def test_clients_that_go_at_any_moment_leave_no_watch_behind() -> None:
    async with served(pace=1) as (cluster, client):
        for count in range(30):
            await gone(client, "GET", f"{MAPS}?watch=1", after_s=count % 6 * 0.001)
        server = next(iter(cluster.api_servers.values()))
        assert server.life is not None
        mine = server.life.caches.of(cluster.scheme.resource("configmaps"))
        with trio.fail_after(10):
            while any(watch.client == TOKENS["root"].name for watch in mine.watches()):
                await trio.testing.wait_all_tasks_blocked(0.01)


async def test_what_a_client_that_went_asked_for_is_not_done_later() -> None:
    async with served() as (cluster, client):
        next(iter(cluster.api_servers.values())).overload(10 * SECOND, None)
        stream = await asked(client, "POST", MAPS, json.dumps(config_map("a")).encode())
        journal = cluster.kernel.gate.journal
        with trio.fail_after(10):
            while not any(each.name == "request" for each in journal):
                await trio.testing.wait_all_tasks_blocked(0.01)
            await stream.aclose()
            while journal[-1].name != "request-gone":
                await trio.testing.wait_all_tasks_blocked(0.01)
        next(iter(cluster.api_servers.values())).overload(0, None)
        cluster.kernel.set_rate(float("inf"))
        await cluster.run_for("20s")
        cluster.kernel.set_rate(0)
        assert (await client.get(f"{MAPS}/a")).status_code == 404


async def test_a_journal_replays_to_the_same_trace() -> None:
    async def record(replay: list[Operation] | None) -> tuple[str, list[Operation]]:
        async with served(replay=replay) as (cluster, client):
            cluster.kernel.set_rate(float("inf"))
            if replay is None:
                await client.post(MAPS, json=config_map("a"))
                async with client.stream("GET", f"{MAPS}?watch=1"):
                    await cluster.run_until("2s")
                    await client.post(MAPS, json=config_map("b"))
            await cluster.run_until("5s")
            return cluster.kernel.trace.sha256(), cluster.kernel.gate.journal

    recorded, journal = await record(None)
    replayed, _ = await record(journal)
    assert replayed == recorded


@pytest.mark.parametrize("servers", [1, 2])
async def test_server_after_sigterm_is_not_ready_and_serves_until_its_delay_is_over(servers: int) -> None:
    """Where another is ready, that one is asked."""
    plan = ClusterPlan(
        naming="kubernetes", api_server=ComponentPlan(servers, {"shutdown-delay-duration": "10s"})
    )
    async with served(plan=plan) as (cluster, client):
        cluster.supervisor["apiserver-0"].terminate()
        ready, alive = await client.get("/readyz"), await client.get("/livez")
        assert (ready.status_code, alive.status_code) == (200 if servers == 2 else 500, 200)
        assert ("[-]shutdown failed" in ready.text) is (servers == 1)
        assert (await client.get(MAPS)).status_code == 200
        cluster.kernel.set_rate(inf)
        await cluster.run_for("11s")
        assert (await client.get(MAPS)).status_code == (200 if servers == 2 else 503)


@pytest.mark.parametrize(
    ("method", "path", "content", "headers", "code"),
    [
        ("POST", MAPS, b"{", JSON, 400),
        ("POST", MAPS, b"", JSON, 400),
        ("POST", MAPS, b"[]", JSON, 400),
        ("POST", MAPS, b"nul", JSON, 400),
        ("POST", MAPS, b'{"metadata": "x"}', JSON, 400),
        ("POST", MAPS, b'{"metadata": {"name": 1}}', JSON, 400),
        ("POST", MAPS, b'{"metadata": {"name": "a"}, "data": []}', JSON, 400),
        ("POST", MAPS, b'{"metadata": {"name": "a", "labels": {"b": 1}}}', JSON, 400),
        ("POST", MAPS, b'{"metadata": {"name": "A B"}}', JSON, 422),
        ("POST", MAPS, b"\xff\xfe", JSON, 400),
        ("POST", MAPS, b'{"a":' * 20_000, JSON, 400),
        ("POST", MAPS, b"{}", {"Content-Type": "text/plain"}, 415),
        ("POST", MAPS, b"a: [", {"Content-Type": "application/yaml"}, 400),
        ("POST", MAPS, b"a: !!python/name:os.system ''", {"Content-Type": "application/yaml"}, 400),
        ("POST", MAPS, b"k8s\x00\x0a\xff", {"Content-Type": N.media_protobuf}, 400),
        ("POST", MAPS, b"nonsense", {"Content-Type": N.media_protobuf}, 400),
        ("PATCH", f"{MAPS}/x", b"[" * 20_000, {"Content-Type": N.media_json_patch}, 400),
        ("PATCH", f"{MAPS}/kube-root-ca.crt", b"{}", {"Content-Type": "application/json"}, 415),
        ("DELETE", f"{MAPS}/x?gracePeriodSeconds=abc", b"", {}, 400),
        ("GET", f"{MAPS}?limit=abc", b"", {}, 400),
        ("GET", f"{MAPS}?labelSelector=a==b,,", b"", {}, 400),
        ("GET", f"{MAPS}?fieldSelector=spec.nope=1", b"", {}, 400),
        ("GET", f"{MAPS}?continue=%25", b"", {}, 400),
        ("GET", f"{MAPS}?timeout=soon", b"", {}, 400),
        ("GET", f"{MAPS}/a%zz", b"", {}, 400),
        ("GET", f"{MAPS}/%2e%2e", b"", {}, 400),
        ("GET", "/nope", b"", {}, 404),
        ("GET", "//api/v1/pods", b"", {}, 404),
        ("GET", "/apis/nope.example.com/v1", b"", {}, 404),
        ("BREW", MAPS, b"", {}, 405),
        ("PUT", MAPS, b"{}", JSON, 405),
        ("GET", MAPS, b"", {"Accept": "text/csv"}, 406),
        ("GET", MAPS, b"", {"Authorization": "Bearer wrong"}, 401),
        ("GET", MAPS, b"", {"Authorization": ""}, 403),
        # Quirk: these client mistakes are upstream's own 500.
        ("GET", f"{MAPS}/a?resourceVersion=abc", b"", {}, 500),
        ("POST", MAPS, b'{"metadata": {"name": "a", "resourceVersion": "1"}}', JSON, 500),
        ("DELETE", f"{MAPS}/a", b'{"kind": "Pod", "apiVersion": "v1"}', JSON, 500),
        ("DELETE", f"{MAPS}/a", b"[]", JSON, 500),
        ("DELETE", f"{MAPS}/a", b'{"dryRun": "All"}', JSON, 500),
        ("DELETE", f"{MAPS}/a", b'{"preconditions": "x"}', JSON, 500),
    ],
)
async def test_bad_input_is_refused_in_upstreams_way(
    method: str, path: str, content: bytes, headers: dict[str, str], code: int
) -> None:
    async with served() as (_, client):
        answer = await client.request(method, path, content=content, headers=headers)
        assert answer.status_code == code
        if answer.headers["Content-Type"] == "application/json":
            assert answer.json()["code"] == code
        assert (await client.get("/healthz")).text == "ok"


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_beyond_the_limit_is_413_before_it_is_all_read(announced: bool) -> None:
    size = f"Content-Length: {BODY_MAX + 1}" if announced else "Transfer-Encoding: chunked"
    head = f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer root\r\n{size}\r\n\r\n"
    chunk = b" " * 65_536
    async with served() as (_, client):
        stream = await trio.open_tcp_stream("127.0.0.1", client.base_url.port or 0)
        await stream.send_all(head.encode())
        if not announced:
            for _ in range(BODY_MAX // len(chunk) + 1):
                await stream.send_all(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        with trio.fail_after(30):
            answer = await stream.receive_some()
        assert answer.startswith(b"HTTP/1.1 413")
        await stream.aclose()


async def test_oversized_request_gets_its_error_on_any_kind_of_connection() -> None:
    async with served() as (_, client):
        for beyond in (1, 4 * BODY_MAX):
            answer = await client.post(MAPS, content=b" " * (BODY_MAX + beyond))
            assert answer.status_code == 413


async def test_a_refusal_before_the_body_leaves_the_connection_usable() -> None:
    async with served() as (_, client):
        stream = await trio.open_tcp_stream("127.0.0.1", client.base_url.port or 0)
        for _ in range(3):
            head = f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}"
            await stream.send_all(head.encode())
            answer = b""
            with trio.fail_after(30):
                while b'"code":403}' not in answer:
                    answer += await stream.receive_some()
            assert answer.startswith(b"HTTP/1.1 403")
        await stream.aclose()


async def test_unknown_fields_are_warned_about() -> None:
    async with served() as (_, client):
        answer = await client.post(MAPS, json={**config_map("a"), "nope": 1})
        assert answer.headers["Warning"] == '299 - "unknown field \\"nope\\""'


async def test_what_a_warning_cannot_hold_breaks_no_answer() -> None:
    async with served() as (_, client):
        for field in ("\0", "a\r\nX-Forged: 1", "日本", '"', "x" * 100_000):
            answer = await client.post(f"{MAPS}?dryRun=All", json={**config_map("a"), field: 1})
            assert (answer.status_code, answer.headers.get("X-Forged")) == (201, None)
            assert len(answer.headers["Warning"]) < 300
        answer = await client.get(f"{MAPS}/a%00")
        assert answer.json()["message"] == r'configmaps "a\x00" not found'


async def test_a_table_has_upstreams_columns_and_metadata_of_each_row() -> None:
    async with served() as (_, client):
        await client.post(MAPS, json=config_map("a"))
        accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
        table = (await client.get(MAPS, headers=accept)).json()
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
        assert table["rows"][0]["cells"] == ["a", 1, "0s"]
        assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
        # A form that does not fit is refused after the effect; errors and a Status keep their form.
        accept = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
        assert (await client.post(MAPS, json=config_map("b"), headers=accept)).status_code == 406
        assert (await client.get(f"{MAPS}/c", headers=accept)).status_code == 404
        assert (await client.delete(f"{MAPS}/b", headers=accept)).json()["status"] == "Success"
        watched = await client.get(f"/api/v1/watch{MAPS[7:]}/a?fieldSelector=metadata.name=z")
        assert watched.json()["message"] == "fieldSelector metadata.name doesn't match requested name"
        assert (await client.post("/apis/apps")).json()["kind"] == "APIGroup"


async def test_a_client_certificate_of_the_servers_authority_is_believed(tmp_path: Path) -> None:
    authority = Authority("ca")
    pair = authority.client("admin", (N.group_masters,))
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    mine = ssl.create_default_context(cadata=authority.pem.decode())
    mine.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on
    context = server_context(authority.server(("127.0.0.1",)), authority.pem)
    async with served(context=context, authorities=(authority.pem,)) as (_, insecure):
        base = insecure.base_url
        async with httpx.AsyncClient(base_url=base, verify=mine) as client:
            assert (await client.get(MAPS)).status_code == 403
        mine.load_cert_chain(certificate, key)
        async with httpx.AsyncClient(base_url=base, verify=mine) as client:
            assert (await client.get(MAPS)).status_code == 200
            assert (await client.get(MAPS)).status_code == 200  # on the same connection


async def check_logs_over_websocket(client: httpx.AsyncClient, path: str, log: bytes) -> None:
    """An empty message opens a log; the first subprotocol that is known decides on its form."""
    both = ["base64.binary.k8s.io", "binary.k8s.io"]
    for asked, agreed, empty, whole in (
        ([], None, b"", log),
        (["v9.x", *both], both[0], "", b64encode(log).decode()),
        ([both[1]], both[1], b"", log),
    ):
        async with opened(client, path, subprotocols=asked) as socket:
            assert socket.subprotocol == agreed
            assert [await socket.get_message(), await socket.get_message()] == [empty, whole]
            with pytest.raises(ConnectionClosed) as closed, trio.fail_after(30):
                await socket.get_message()
            assert closed.value.reason.code == 1000
    for refused, protocol, code in ((path, "v9.x", 403), (f"{path}&tailLines=x", both[1], 400)):
        found = 0
        try:
            async with opened(client, refused, subprotocols=[protocol]):
                pass
        except* ConnectionRejected as rejected:
            found = first_of(rejected).status_code
        assert found == code


async def test_logs_come_from_the_node_that_runs_the_pod_and_go_with_it() -> None:
    async with served(nodes=1) as (cluster, client):
        cluster.kernel.set_rate(float("inf"))
        await cluster.run_until("5s")
        command = ["sh", "-c", "echo hello; sleep 1000"]
        containers = [{"name": name, "image": "i", "command": command} for name in ("a", "b")]
        await client.post(PODS, json={"metadata": {"name": "p"}, "spec": {"containers": containers}})
        assert (await client.get(f"{PODS}/p/log?container=a")).status_code == 204
        await cluster.run_until("30s")
        log = await client.get(f"{PODS}/p/log?container=a")
        assert log.headers["Content-Type"].startswith("text/plain")
        assert log.text == "hello\n"
        assert (await client.get(f"{PODS}/p/log?container=a&tailLines=0")).text == ""
        which = await client.get(f"{PODS}/p/log")
        assert which.json()["message"] == "a container name must be specified for pod p, choose one of: [a b]"
        assert (await client.get(f"{PODS}/p/log?container=x")).status_code == 400
        await check_logs_over_websocket(client, f"{PODS}/p/log?container=a", log.content)
        cluster.fail_node("node-0", "power-loss")
        assert "connection refused" in (await client.get(f"{PODS}/p/log?container=a")).json()["message"]


async def test_a_dead_api_server_is_503_and_the_next_one_answers() -> None:
    async with served() as (cluster, client):
        cluster.supervisor["apiserver-0"].crash()
        dead = await client.get(MAPS)
        assert dead.status_code == 503
        assert dead.headers["Retry-After"] == "1"
        assert (await client.get("/readyz")).status_code == 500
        cluster.supervisor["apiserver-0"].start()
        assert (await client.get(MAPS)).status_code == 200


async def test_several_health_checks_can_be_excluded_and_unknown_ones_are_reported() -> None:
    async with served() as (_, client):
        text = (await client.get("/readyz?verbose&exclude=ping&exclude=log&exclude=b&exclude=a")).text
        lines = text.splitlines()
        assert lines[:3] == ["[+]ping excluded: ok", "[+]log excluded: ok", "[+]etcd ok"]
        assert lines[-2:] == [
            'warn: some health checks cannot be excluded: no matches for "a","b"',
            "readyz check passed",
        ]


async def test_a_version_that_is_deprecated_is_served_with_a_warning_and_counted() -> None:
    newer, older = (
        f"/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers"
        for version in ("v2", "v2beta2")
    )
    text = (
        '299 - "autoscaling/v2beta2 HorizontalPodAutoscaler is deprecated in v1.23+, unavailable in v1.26+; '
        'use autoscaling/v2 HorizontalPodAutoscaler"'
    )
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    async with served() as (_, client):
        made = await client.post(
            older,
            json={"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target}, "x": 1},
        )
        assert made.status_code == 201
        assert made.headers.get_list("Warning") == [text, '299 - "unknown field \\"x\\""']
        assert made.json()["apiVersion"] == "autoscaling/v2beta2"
        found = await client.get(f"{newer}/a")
        assert found.json()["apiVersion"] == "autoscaling/v2"
        assert "Warning" not in found.headers
        assert (await client.get(f"{older}/none")).headers["Warning"] == text
        metrics = (await client.get("/metrics")).text.splitlines()
        assert (
            'apiserver_requested_deprecated_apis{group="autoscaling",removed_release="1.26",'
            'resource="horizontalpodautoscalers",subresource="",version="v2beta2"} 1'
        ) in metrics
        assert (
            'apiserver_request_total{code="404",component="apiserver",dry_run="",group="autoscaling",'
            'resource="horizontalpodautoscalers",scope="resource",subresource="",verb="GET",version="v2beta2"} 1'
        ) in metrics


async def test_a_series_of_the_metrics_has_one_line() -> None:
    async with served() as (_, client):
        await client.get("/nope")
        await client.get("/api/v1/nopes")
        lines = (await client.get("/metrics")).text.splitlines()
        series = [line.rpartition(" ")[0] for line in lines if not line.startswith("#")]
        assert len(series) == len(set(series))
        assert not any("nope" in line for line in lines)


async def test_answers_come_in_protobuf_where_that_is_asked_for() -> None:
    accept = {"Accept": f"{N.media_protobuf}, */*"}
    async with served(pace=60) as (_, client):
        made = await client.post(MAPS, json=config_map("a"), headers=accept)
        assert made.headers["Content-Type"] == N.media_protobuf
        found = decode(made.content, "")
        assert (found["kind"], found["data"]) == ("ConfigMap", {"k": "v"})
        assert found == decode((await client.get(f"{MAPS}/a", headers=accept)).content, "")
        assert (await client.get(f"{MAPS}/a")).json() == found
        listed = (await client.get(MAPS, headers=accept)).content
        assert b"ConfigMapList" in listed
        for path in (MAPS, f"{MAPS}/a"):  # which JSON only can be
            assert (await client.get(f"{path}?pretty=1", headers=accept)).content.startswith(b"k8s\x00")
        missing = await client.get(f"{MAPS}/none", headers=accept)
        assert missing.status_code == 404
        assert b'configmaps "none" not found' in missing.content
        assert missing.headers["Content-Type"] == N.media_protobuf
        partial = {"Accept": f"{N.media_protobuf};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
        assert b"PartialObjectMetadata" in (await client.get(f"{MAPS}/a", headers=partial)).content
        table = {"Accept": f"{N.media_protobuf};as=Table;g=meta.k8s.io;v=v1, application/json"}
        assert (await client.get(MAPS, headers=table)).headers["Content-Type"] == "application/json"
        path = f"{MAPS}?watch=1&timeoutSeconds=30&fieldSelector=metadata.name=a"
        async with client.stream("GET", path, headers=accept) as stream:
            assert stream.headers["Content-Type"] == f"{N.media_protobuf};stream=watch"
            data = await stream.aread()
        assert int.from_bytes(data[:4], "big") == len(data) - 4
        assert data[4:].startswith(b"\x0a\x05ADDED")
        assert decode(data[data.index(b"k8s\x00") :], "") == found


async def test_keys_that_a_patch_holds_twice_are_warned_about_or_refused() -> None:
    async with served() as (_, client):
        await client.post(MAPS, json=config_map("a"))
        merge = {"Content-Type": N.media_merge_patch}
        twice = b'{"data": {"k": "1", "k": "2"}, "nope": 1}'
        warned = await client.patch(f"{MAPS}/a", content=twice, headers=merge)
        assert warned.headers.get_list("Warning") == [
            '299 - "duplicate field \\"data.k\\""',
            '299 - "unknown field \\"nope\\""',
        ]
        strict = await client.patch(f"{MAPS}/a?fieldValidation=Strict", content=twice, headers=merge)
        assert strict.status_code == 422
        assert 'strict decoding error: duplicate field "data.k"' in strict.json()["message"]
        apply = {"Content-Type": N.media_apply_patch}
        text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: x, k: z}\n"
        path = f"{MAPS}/a?fieldManager=m&force=true"
        warned = await client.patch(path, content=text, headers=apply)
        assert warned.headers["Warning"] == '299 - "line 4: key \\"k\\" already set in map"'
        strict = await client.patch(f"{path}&fieldValidation=Strict", content=text, headers=apply)
        assert strict.status_code == 400
        assert strict.json()["message"].startswith(
            "error strict decoding YAML: yaml: unmarshal errors:\n  line 4"
        )
        # applyPatchToCurrentObject: a conflict is found before the keys are read strictly.
        other, changed = path.replace("=m&force=true", "=o"), text.replace(b"k: z", b"k: q")
        conflict = await client.patch(f"{other}&fieldValidation=Strict", content=changed, headers=apply)
        assert conflict.status_code == 409
        ignored = await client.patch(f"{path}&fieldValidation=Ignore", content=text, headers=apply)
        assert "Warning" not in ignored.headers


async def test_versions_that_are_turned_off_are_not_there_and_the_rest_works() -> None:
    server = ComponentPlan(flags={"runtime-config": "batch/v1=false,autoscaling/v2beta2=false"})
    plan = ClusterPlan(naming="kubernetes", api_server=server, nodes=plain_nodes(1))
    async with served(plan=plan) as (cluster, client):
        groups = [group["name"] for group in (await client.get("/apis")).json()["groups"]]
        assert "batch" not in groups
        assert (await client.get("/apis/batch/v1/jobs")).status_code == 404
        assert (await client.get("/apis/autoscaling/v2beta2")).status_code == 404
        assert (await client.get("/apis/autoscaling/v2")).status_code == 200
        cluster.kernel.set_rate(float("inf"))
        await cluster.run_until("5s")
        template = {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        path = "/apis/apps/v1/namespaces/default/deployments"
        assert (await client.post(path, json={"metadata": {"name": "d"}, "spec": spec})).status_code == 201
        await cluster.run_until("2m")
        assert (await client.get(f"{path}/d")).json()["status"]["readyReplicas"] == 1


@pytest.mark.parametrize("slow", [False, True], ids=["prompt", "stepwise"])
async def test_internal_error_is_returned_and_logged_and_ends_nothing(
    slow: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Upstream recovers from a panic; inside a run, where no client causes it, an error still ends
    the run.
    """
    run = Handlers.steps

    def broken(self: Handlers, call: Call) -> Steps:
        if call.request.name == "broken":
            raise ZeroDivisionError("division by nothing")
        return (yield from run(self, call))

    monkeypatch.setattr(Handlers, "steps", broken)
    async with served(pace=1000) as (cluster, client):
        if slow:
            cluster.faults.impose("slow", "storage", "disk", SECOND)
        met = await client.get("/api/v1/namespaces/default/configmaps/broken")
        assert (met.status_code, met.text, met.headers["content-type"]) == (
            500, "This request caused apiserver to panic. Look in the logs for details.\n", "text/plain; charset=utf-8"
        )  # fmt: skip
        assert "get of default/configmaps/broken met an error" in caplog.text
        assert "division by nothing" in caplog.text
        assert (await client.get("/api/v1/namespaces/default/configmaps/other")).status_code == 404
        cluster.faults.heal("storage")
        with pytest.raises(ZeroDivisionError):
            cluster.request("get", "configmaps", "default", "broken")


# --- WebSocket ------------------------------------------------------------------------------------


@asynccontextmanager
async def opened(
    client: httpx.AsyncClient, path: str, subprotocols: Sequence[str] = (), **headers: str
) -> AsyncIterator[WebSocketConnection]:
    sent = [("Authorization", "Bearer root"), *headers.items()]
    stream = await trio.open_tcp_stream("127.0.0.1", client.base_url.port or 0)
    async with stream, trio.open_nursery() as nursery:
        yield await wrap_client_stream(
            nursery, stream, "x", path, subprotocols=subprotocols, extra_headers=sent
        )
        nursery.cancel_scope.cancel()


async def test_websocket_watch_sends_each_event_as_a_message_and_ends_with_the_watch() -> None:
    async with served(pace=60) as (_, client):
        async with opened(
            client, f"{MAPS}?watch=1&labelSelector=l&timeoutSeconds=60", Origin="http://x"
        ) as socket:
            for name in ("a", "b"):
                await client.post(MAPS, json={"metadata": {"name": name, "labels": {"l": "x"}}})
            events = [json.loads(await socket.get_message()) for _ in range(2)]
            with pytest.raises(ConnectionClosed) as closed, trio.fail_after(30):
                await socket.get_message()
        assert [(event["type"], event["object"]["metadata"]["name"]) for event in events] == [
            ("ADDED", "a"),
            ("ADDED", "b"),
        ]
        assert closed.value.reason.code == 1000
        accept = f"{N.media_protobuf};stream=watch"
        async with opened(client, f"{MAPS}?watch=1", Origin="http://x", Accept=accept) as socket:
            message = await socket.get_message()
        assert isinstance(message, bytes)
        assert message.startswith(b"\x0a\x05ADDED")


@pytest.mark.parametrize(("token", "outcome"), [("cm9vdA", "json.v1"), ("eA", "401")])
async def test_token_of_a_websocket_client_may_be_a_subprotocol_which_is_not_chosen(
    token: str, outcome: str
) -> None:
    """The tokens are base64url of root and of x."""
    protocols = [f"base64url.bearer.authorization.k8s.io.{token}", "json.v1"]
    origin = [("Origin", "http://x")]
    async with served(pace=60) as (_, client):
        stream = await trio.open_tcp_stream("127.0.0.1", client.base_url.port or 0)
        try:
            async with stream, trio.open_nursery() as nursery:
                socket = await wrap_client_stream(
                    nursery, stream, "x", f"{MAPS}?watch=1", subprotocols=protocols, extra_headers=origin
                )
                found = socket.subprotocol
                nursery.cancel_scope.cancel()
        except* ConnectionRejected as refused:
            found = str(first_of(refused).status_code)
        assert found == outcome


async def test_a_client_that_closes_its_websocket_ends_its_watch_in_the_simulation() -> None:
    async with served(pace=1) as (cluster, client):
        async with opened(client, f"{MAPS}?watch=1", Origin="http://x") as socket:
            await socket.send_message("what nobody reads")
            await socket.aclose()
        with trio.move_on_after(1):  # real seconds for the server to notice
            await trio.testing.wait_all_tasks_blocked(0.05)
        assert cluster.kernel.gate.journal[-1].name == "watch-stop"


@pytest.mark.parametrize(
    ("path", "headers", "code"),
    [
        (f"{MAPS}?watch=1", {}, 403),
        (f"{MAPS}?watch=1", {"Origin": "http://x", "Accept": "text/csv"}, 406),
        (MAPS, {"Origin": "http://x"}, 200),
        (f"{PODS}/p/exec", {"Origin": "http://x"}, 404),
    ],
    ids=["no origin", "no such form", "a list", "exec"],
)
async def test_a_websocket_request_that_is_no_watch_is_answered_as_any_other(
    path: str, headers: dict[str, str], code: int
) -> None:
    handshake = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    handshake |= {
        "Host": "x",
        "Authorization": "Bearer root",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {text}" for name, text in {**handshake, **headers}.items())]
    async with served() as (cluster, client):
        async with await trio.open_tcp_stream("127.0.0.1", client.base_url.port or 0) as stream:
            await stream.send_all("\r\n".join([*lines, "", ""]).encode())
            with trio.fail_after(30):
                answer = await stream.receive_some()
                while code != 403 and b'"kind"' not in answer:
                    answer += await stream.receive_some()
        assert answer.startswith(b"HTTP/1.1 %d" % code)
        with trio.move_on_after(1):
            await trio.testing.wait_all_tasks_blocked(0.05)
        names = [operation.name for operation in cluster.kernel.gate.journal]
        assert names.count("watch-stop") == (code == 403)


# --- tokens of service accounts -------------------------------------------------------------------

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


async def token_of(client: httpx.AsyncClient, **spec: Any) -> str:
    asked = await client.post(f"{ACCOUNTS}/a/token", json={"spec": spec})
    assert asked.status_code == 201
    return str(asked.json()["status"]["token"])


async def test_service_account_token_is_valid_until_it_expires_or_its_account_is_deleted() -> None:
    async with served() as (cluster, client):
        await client.post(ACCOUNTS, json={"metadata": {"name": "a"}})
        token = await token_of(client, expirationSeconds=600)
        head, claims, signature = token.split(".")
        forged = f"{head}.{claims}.{signature[::-1]}"
        elsewhere = await token_of(client, audiences=["vault"])
        later = await token_of(client)

        async def code(shown: str) -> int:
            return (await client.get("/version", headers={"Authorization": f"Bearer {shown}"})).status_code

        assert [await code(shown) for shown in (token, forged, elsewhere, f"{token}x")] == [
            200,
            401,
            401,
            401,
        ]
        made = await client.post(
            MAPS,
            json=config_map("a"),
            headers={"Authorization": f"Bearer {token}", "Impersonate-User": "root"},
        )
        assert "system:serviceaccount:default:a" in made.json()["message"]
        cluster.kernel.set_rate(inf)
        await cluster.run_for("11m")
        assert [await code(shown) for shown in (token, later)] == [200, 200]  # a minute of leeway
        await cluster.run_for("1s")
        assert [await code(shown) for shown in (token, later)] == [401, 200]
        await client.delete(f"{ACCOUNTS}/a")
        await client.post(ACCOUNTS, json={"metadata": {"name": "a"}})
        assert await code(later) == 401


async def test_a_token_that_is_bound_to_a_pod_ends_with_it() -> None:
    async with served() as (_, client):
        await client.post(ACCOUNTS, json={"metadata": {"name": "a"}})
        spec = {"serviceAccountName": "a", "containers": [{"name": "c", "image": "i"}]}
        assert (await client.post(PODS, json={"metadata": {"name": "p"}, "spec": spec})).status_code == 201
        bound = {
            "Authorization": f"Bearer {await token_of(client, boundObjectRef={'kind': 'Pod', 'name': 'p'})}"
        }
        assert (await client.get("/version", headers=bound)).status_code == 200
        await client.delete(f"{PODS}/p")
        assert (await client.get("/version", headers=bound)).status_code == 401


async def test_only_paths_below_the_prefix_of_pages_are_routed_by_quart() -> None:
    async with Cluster() as cluster:
        app = Application(front_of(cluster).answer, pages="/pages/")

        @app.quart.get("/pages/hello")
        async def hello() -> str:
            return "hello"

        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
            assert (await client.get("/pages/hello")).text == "hello"
            assert (await client.get("/pages/other")).status_code == 404
            answer = await client.get("/hello", headers={"Authorization": "Bearer nobody"})
            assert answer.status_code == 401


async def test_component_statuses_follow_the_processes_and_are_deprecated() -> None:
    path = "/api/v1/componentstatuses"
    text = '299 - "v1 ComponentStatus is deprecated in v1.19+"'
    async with served() as (cluster, client):
        found = await client.get(path)
        assert found.headers["Warning"] == text
        assert found.json()["metadata"] == {}
        assert {c["status"] for item in found.json()["items"] for c in item["conditions"]} == {"True"}
        cluster.supervisor["scheduler-0"].crash()
        crashed = (await client.get(f"{path}/scheduler")).json()
        assert crashed["conditions"][0]["message"].endswith("127.0.0.1:10259: connect: connection refused")
        assert (await client.get(f"{path}?watch=1")).status_code == 405
        assert (await client.delete(f"{path}/scheduler")).status_code == 405
        metrics = (await client.get("/metrics")).text.splitlines()
        assert (
            'apiserver_requested_deprecated_apis{group="",removed_release="",'
            'resource="componentstatuses",subresource="",version="v1"} 1'
        ) in metrics
