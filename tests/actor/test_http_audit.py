"""The audit of a served cluster: events of requests from outside at each level, log and webhook."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
import yaml
from quart_trio import QuartTrio

from sim.api.types import Reply, Request, UserInfo
from sim.app.cluster import Cluster
from sim.app.serving.front import make_front, make_webhook
from sim.app.serving.identities import Files
from sim.app.serving.serve import served as serve_cluster
from sim.ident import NAMES
from sim.kernel import NEVER_US
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.wire.http.app import Application
from sim.wire.http.fronts.server import serve
from tests.actor.identities import key
from tests.cluster.cli.outside_server import any_certificate, bundle, listening

N = NAMES["kubernetes"]
TOKENS = {"root": UserInfo("admin", (N.group_masters,)), "ann": UserInfo("ann")}
MAPS = "/api/v1/namespaces/default/configmaps"
BODY = {"metadata": {"name": "a"}, "data": {"k": "v"}}
OUTSIDE = {"level": "None", "userGroups": ["system:masters"], "verbs": ["none"]}


def policy(*rules: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": list(rules), **fields}


def maps_at(level: str) -> dict[str, Any]:
    """Only requests for ConfigMaps by clients outside are recorded."""
    return policy({"level": level, "users": ["admin", "ann"], "resources": [{"resources": ["configmaps"]}]})


@asynccontextmanager
async def served(
    tmp_path: Path, rules: dict[str, Any], pace: float = 0, **flags: Any
) -> AsyncIterator[tuple[Cluster, httpx.AsyncClient]]:
    file = tmp_path / "policy.yaml"
    file.write_text(yaml.safe_dump(rules))
    flags = {"audit-policy-file": str(file), "audit-log-path": str(tmp_path / "audit.log"), **flags}
    plan = ClusterPlan(naming="kubernetes", nodes=(), api_server=ComponentPlan(flags=flags))
    async with Cluster(plan) as cluster, trio.open_nursery() as nursery:
        cluster.kernel.set_rate(pace)
        if pace:
            cluster.kernel.set_goal(NEVER_US)
        webhook = make_webhook(cluster)
        if webhook is not None:
            nursery.start_soon(webhook.run)
        files = Files.read(cluster.options.authentication, key())
        front = make_front(cluster, TOKENS, "127.0.0.1", files)
        port = await nursery.start(serve, Application(front.answer), "127.0.0.1", 0, None, None)
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": "Bearer root", "User-Agent": "u/1"}
        ) as client:
            yield cluster, client
        nursery.cancel_scope.cancel()


def events(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]


@pytest.mark.parametrize(
    ("level", "objects"),
    [
        ("Metadata", set()),
        ("Request", {"requestObject"}),
        ("RequestResponse", {"requestObject", "responseObject"}),
    ],
)
async def test_write_is_recorded_at_the_level_of_the_policy(
    tmp_path: Path, level: str, objects: set[str]
) -> None:
    async with served(tmp_path, maps_at(level)) as (_, client):
        made = await client.post(f"{MAPS}?fieldManager=m", json=BODY)
        assert made.status_code == 201
        received, complete = events(tmp_path)
    assert (received["stage"], complete["stage"]) == ("RequestReceived", "ResponseComplete")
    assert {"requestObject", "responseObject"} & set(complete) == objects
    assert received["auditID"] == complete["auditID"] == made.headers["audit-id"]
    assert complete["requestURI"] == f"{MAPS}?fieldManager=m"
    assert (complete["level"], complete["verb"], complete["userAgent"]) == (level, "create", "u/1")
    assert complete["sourceIPs"] == ["127.0.0.1"]
    assert complete["user"] == {"username": "admin", "groups": ["system:masters", "system:authenticated"]}
    reference = {"resource": "configmaps", "namespace": "default", "name": "a", "apiVersion": "v1"}
    assert complete["objectRef"] == reference
    assert complete["responseStatus"] == {"metadata": {}, "code": 201}
    assert complete["annotations"] == {
        "authorization.k8s.io/decision": "allow",
        "authorization.k8s.io/reason": "",
    }
    if "responseObject" in objects:
        assert complete["responseObject"]["metadata"]["managedFields"][0]["manager"] == "m"
        assert complete["responseObject"]["kind"] == "ConfigMap"


async def test_nothing_is_recorded_at_level_none(tmp_path: Path) -> None:
    async with served(tmp_path, policy({"level": "None"})) as (_, client):
        await client.post(MAPS, json=BODY)
        assert events(tmp_path) == []


async def test_audit_id_of_the_client_is_kept_and_answered(tmp_path: Path) -> None:
    async with served(tmp_path, maps_at("Metadata")) as (_, client):
        answer = await client.get(MAPS, headers={"Audit-ID": "mine"})
        assert answer.headers["audit-id"] == "mine"
        others = {(await client.get(MAPS)).headers["audit-id"] for _ in range(3)}
        assert [event["auditID"] for event in events(tmp_path)[:2]] == ["mine", "mine"]
    assert len(others) == 3


async def test_refusals_of_the_front_are_recorded(tmp_path: Path) -> None:
    rules = policy(
        {"level": "RequestResponse", "userGroups": ["system:masters"]}, omitStages=["RequestReceived"]
    )
    async with served(tmp_path, rules) as (_, client):
        await client.get(f"{MAPS}/none")
        await client.get("/version")
        await client.get("/api/v1/none")
        await client.post(MAPS, content=b"{", headers={"Content-Type": "application/json"})
        await client.get("/none")
        found = events(tmp_path)
    codes = [event["responseStatus"]["code"] for event in found]
    assert codes == [404, 200, 404, 400, 404]
    assert found[0]["responseStatus"]["reason"] == "NotFound"
    assert found[0]["responseObject"]["kind"] == "Status"
    assert "objectRef" not in found[1]


async def test_failed_authentication_is_one_event_without_a_user(tmp_path: Path) -> None:
    async with served(tmp_path, policy({"level": "Metadata", "verbs": ["list"]})) as (_, client):
        answer = await client.get(MAPS, headers={"Authorization": "Bearer wrong"})
        assert answer.status_code == 401
        (event,) = [each for each in events(tmp_path) if not each["user"]]
    assert event["stage"] == "ResponseStarted"
    message = "Authentication failed, attempted: bearer"
    assert event["responseStatus"] == {"metadata": {}, "message": message, "code": 401}


async def test_impersonated_user_is_recorded_beside_the_real_one(tmp_path: Path) -> None:
    async with served(tmp_path, maps_at("Metadata")) as (_, client):
        await client.get(MAPS, headers={"Impersonate-User": "bob", "Impersonate-Group": "ops"})
        received, complete = events(tmp_path)
    assert "impersonatedUser" not in received
    assert complete["user"]["username"] == "admin"
    assert complete["impersonatedUser"]["username"] == "bob"
    assert "ops" in complete["impersonatedUser"]["groups"]


async def test_addresses_of_proxies_come_before_the_peer(tmp_path: Path) -> None:
    async with served(tmp_path, maps_at("Metadata")) as (_, client):
        headers = {"X-Forwarded-For": "10.0.0.1, x, 10.0.0.2", "X-Real-Ip": "10.0.0.1"}
        await client.get(MAPS, headers=headers)
        await client.get(MAPS, headers={"X-Real-Ip": "10.0.0.3"})
        found = events(tmp_path)
    assert found[0]["sourceIPs"] == ["10.0.0.1", "10.0.0.2", "127.0.0.1"]
    assert found[-1]["sourceIPs"] == ["10.0.0.3", "127.0.0.1"]


async def test_request_for_a_deprecated_version_is_annotated(tmp_path: Path) -> None:
    rules = policy({"level": "Metadata", "users": ["admin"], "resources": [{"group": "autoscaling"}]})
    async with served(tmp_path, rules) as (_, client):
        await client.get("/apis/autoscaling/v2beta2/horizontalpodautoscalers")
        annotations = events(tmp_path)[-1]["annotations"]
    assert (annotations["k8s.io/deprecated"], annotations["k8s.io/removed-release"]) == ("true", "1.26")


async def test_watch_has_a_start_and_an_end(tmp_path: Path) -> None:
    async with served(tmp_path, maps_at("Metadata"), pace=1) as (cluster, client):
        send, receive = trio.open_memory_channel[dict[str, Any]](100)
        assert cluster.audit is not None
        cluster.audit.forward_to = send.send_nowait
        with trio.fail_after(10):
            async with client.stream("GET", MAPS, params={"watch": "1"}) as answer:
                assert answer.status_code == 200
                started = [(await receive.receive())["stage"] for _ in range(2)]
                assert started == ["RequestReceived", "ResponseStarted"]
            assert (await receive.receive())["stage"] == "ResponseComplete"
        assert len(events(tmp_path)) == 3
        refused = await client.get(MAPS, params={"watch": "1", "resourceVersion": "x"})
        assert refused.status_code >= 400
        stages = [event["stage"] for event in events(tmp_path)[3:]]
    assert stages == ["RequestReceived", "ResponseStarted", "ResponseComplete"]


async def test_defect_of_the_server_is_recorded_as_a_panic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("boom")

    async with served(tmp_path, maps_at("Metadata")) as (_, client):
        monkeypatch.setattr("sim.wire.http.forms.rendering.check_form", broken)
        answer = await client.get(MAPS)
        assert answer.status_code == 500
        last = events(tmp_path)[-1]
    assert last["stage"] == "Panic"
    assert last["responseStatus"]["message"] == "APIServer panic'd: boom"


async def test_request_is_refused_in_strict_mode_if_its_event_cannot_be_stored(tmp_path: Path) -> None:
    flags: dict[str, Any] = {"audit-log-mode": "blocking-strict"}
    async with served(tmp_path, maps_at("Metadata"), **flags) as (cluster, client):
        assert cluster.audit is not None
        cluster.audit.close()
        answer = await client.post(MAPS, json=BODY)
        assert answer.status_code == 500
        assert answer.text == f'Internal Server Error: "{MAPS}": failed to store audit event\n'
        assert cluster.storage.store.get(cluster.scheme.key("configmaps", "default", "a")) is None
        assert cluster.request("get", "configmaps", "default", "a").code == 500
        metrics = (await client.get("/metrics")).text
        assert "apiserver_audit_requests_rejected_total 2" in metrics


async def test_metrics_count_events_and_levels(tmp_path: Path) -> None:
    async with served(tmp_path, maps_at("Metadata")) as (_, client):
        await client.get(MAPS)
        metrics = (await client.get("/metrics")).text
    assert "apiserver_audit_event_total 2" in metrics
    assert 'apiserver_audit_level_total{level="Metadata"} 1' in metrics
    assert 'apiserver_audit_level_total{level="None"}' in metrics


async def test_refused_user_and_reason_are_annotated(tmp_path: Path) -> None:
    async with served(tmp_path, maps_at("Metadata")) as (_, client):
        answer = await client.post(MAPS, json=BODY, headers={"Authorization": "Bearer ann"})
        assert answer.status_code == 403
        last = events(tmp_path)[-1]
    assert last["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert (last["responseStatus"]["reason"], last["responseStatus"]["code"]) == ("Forbidden", 403)


async def test_request_passes_in_blocking_mode_if_its_event_cannot_be_stored(tmp_path: Path) -> None:
    async with served(tmp_path, maps_at("Metadata")) as (cluster, client):
        assert cluster.audit is not None
        cluster.audit.close()
        assert (await client.post(MAPS, json=BODY)).status_code == 201


# --- webhook --------------------------------------------------------------------------------------


@asynccontextmanager
async def receiver(
    codes: list[int],
) -> AsyncIterator[tuple[str, trio.MemoryReceiveChannel[dict[str, Any]]]]:
    """An HTTP server that takes batches; it answers with these codes first, then with 200."""
    put, taken = trio.open_memory_channel[dict[str, Any]](100)

    class Receiver(QuartTrio):
        async def asgi_app(self, scope: Any, receive: Any, send: Any) -> None:
            body, more = b"", True
            while more:
                message = await receive()
                body, more = body + message.get("body", b""), message.get("more_body", False)
            code = codes.pop(0) if codes else 200
            if code == 200:
                put.send_nowait({**json.loads(body), "headers": dict(scope["headers"])})
            await send(
                {"type": "http.response.start", "status": code, "headers": [(b"content-length", b"0")]}
            )
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async with trio.open_nursery() as nursery:
        port = await nursery.start(serve, Receiver("receiver"), "127.0.0.1", 0, None, None)
        yield f"http://127.0.0.1:{port}/hook", taken
        nursery.cancel_scope.cancel()


def webhook_flags(tmp_path: Path, url: str, **more: Any) -> dict[str, Any]:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file = tmp_path / "webhook.yaml"
    file.write_text(yaml.safe_dump(config))
    return {"audit-webhook-config-file": str(file), **more}


async def test_webhook_gets_batches_of_events(tmp_path: Path) -> None:
    async with receiver([]) as (url, taken):
        flags = webhook_flags(tmp_path, url, **{"audit-webhook-batch-max-size": 4})
        async with served(tmp_path, maps_at("Metadata"), **flags) as (_, client):
            for _ in range(3):
                await client.get(MAPS)
            with trio.fail_after(10):
                first = await taken.receive()
            assert len(events(tmp_path)) == 6  # two wait for the batch to be full
        with trio.fail_after(10):
            second = await taken.receive()  # at the end
    assert [len(batch["items"]) for batch in (first, second)] == [4, 2]
    assert (first["kind"], first["apiVersion"]) == ("EventList", "audit.k8s.io/v1")
    assert first["headers"][b"authorization"] == b"Bearer secret"
    assert first["items"][0]["stage"] == "RequestReceived"
    assert "kind" not in first["items"][0]


async def test_webhook_sends_again_what_was_refused(tmp_path: Path) -> None:
    codes = [500, 503]
    async with receiver(codes) as (url, taken):
        more = {"audit-webhook-batch-max-size": 2, "audit-webhook-initial-backoff": "1ms"}
        flags = webhook_flags(tmp_path, url, **more)
        async with served(tmp_path, maps_at("Metadata"), **flags) as (_, client):
            await client.get(MAPS)
            with trio.fail_after(10):
                assert len((await taken.receive())["items"]) == 2
    assert not codes


@pytest.mark.parametrize(("mode", "code"), [("blocking", 200), ("blocking-strict", 500)])
async def test_request_waits_until_its_first_event_is_sent(tmp_path: Path, mode: str, code: int) -> None:
    taken: list[list[str]] = []
    accepts = True

    def page(path: str, headers: dict[str, str], body: Any) -> tuple[int, Any]:
        taken.append([f"{event['user']['username']} {event['stage']}" for event in body["items"]])
        return (200, "") if accepts else (400, "")

    async with listening(page, "audit") as server:
        cluster = {
            "server": f"https://127.0.0.1:{server.port}/events",
            "certificate-authority-data": bundle(server.authority),
        }
        value = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "s"}}],
            "clusters": [{"name": "s", "cluster": cluster}],
        }
        config, file = tmp_path / "webhook.yaml", tmp_path / "policy.yaml"
        config.write_text(yaml.safe_dump(value))
        file.write_text(yaml.safe_dump(maps_at("Metadata")))
        flags = {
            "audit-policy-file": str(file),
            "audit-webhook-config-file": str(config),
            "audit-webhook-mode": mode,
            "audit-webhook-initial-backoff": "1ms",
        }
        plan = ClusterPlan(naming="kubernetes", nodes=(), api_server=ComponentPlan(flags=flags))
        async with (
            Cluster(plan, seed=1) as here,
            serve_cluster(here, None, 10, tokens=TOKENS) as url,
            httpx.AsyncClient(
                base_url=url, verify=any_certificate(), headers={"Authorization": "Bearer root"}
            ) as client,
        ):
            here.kernel.set_goal(NEVER_US)
            await client.get(MAPS)
            assert taken[0] == ["admin RequestReceived"]
            # A request of the simulation waits too, through the gate.
            answered: list[tuple[int, int]] = []
            inside = Request(
                verb="list", resource="configmaps", version="v1", namespace="default", user=TOKENS["ann"]
            )
            done = trio.Event()

            def respond(reply: Reply) -> None:
                events = [each for batch in taken for each in batch]
                answered.append((reply.code, events.count("ann RequestReceived")))
                done.set()

            here.kernel.gate.handle(
                "inside", lambda *_: here.api_servers["apiserver-0"].handle(inside, respond)
            )
            here.kernel.gate.post("inside", None, lambda _: None)
            await done.wait()
            assert answered == [(403, 1)]
            accepts = False
            assert (await client.get(MAPS)).status_code == code
