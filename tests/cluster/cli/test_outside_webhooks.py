"""Admission webhooks that are servers outside of the simulation, called over HTTPS."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from math import inf
from typing import Any

import httpx

from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.app.serving.serve import served
from sim.kernel import NEVER_US
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.wire.authority import Authority
from sim.wire.http.gateway import Gateway
from tests.cluster.cli.outside_server import ROOT, any_certificate, bundle, listening

# Only requests of the test reach the webhook: a controller manager would create ConfigMaps.
PLAN = ClusterPlan(naming="kubernetes", nodes=(), controller_manager=ComponentPlan(0))
HOOKS = "/apis/admissionregistration.k8s.io/v1"
MAPS = "/api/v1/namespaces/default/configmaps"
NAME = "policy.default.svc"


class Webhook:
    """What a webhook was asked; `answer` makes its responses."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, Obj]] = []
        self.answer: Callable[[Obj], Any] = lambda request: {"uid": request["uid"], "allowed": True}
        self.code = 200

    def reply(self, path: str, _: Any, review: Obj) -> tuple[int, Any]:
        self.seen.append((path, review))
        response = self.answer(review["request"])
        if self.code == 200:
            return 200, {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
        return self.code, response


def configuration(kind: str, client: Obj, **more: Any) -> Obj:
    hook = {
        "name": "a.example.com",
        "clientConfig": client,
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": kind.lower()},
        "webhooks": [hook],
    }


async def test_outside_webhooks_judge_and_change_requests_and_replay_without_a_call() -> None:
    hook = Webhook()
    async with listening(hook.reply, NAME) as server:
        cluster = Cluster(PLAN, seed=1)
        service = {"namespace": "default", "name": "policy", "path": "/change"}
        addresses = {"default/policy": ("127.0.0.1", server.port)}
        async with (
            cluster,
            served(cluster, None, 5, tokens=ROOT, service_addresses=addresses) as url,
            httpx.AsyncClient(
                base_url=url, verify=any_certificate(), headers={"Authorization": "Bearer root"}
            ) as client,
        ):
            cluster.kernel.set_goal(NEVER_US)

            async def make(name: str) -> tuple[int, Any]:
                found = await client.post(MAPS, json={"metadata": {"name": name}})
                value = found.json()
                return found.status_code, value if found.status_code == 201 else value["message"]

            async def configure(kind: str, plural: str, client_config: Obj, **more: Any) -> None:
                await client.delete(f"{HOOKS}/{plural}/{kind.lower()}")
                made = await client.post(f"{HOOKS}/{plural}", json=configuration(kind, client_config, **more))
                assert made.status_code == 201, made.text

            validating = "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"
            by_url = {"url": f"https://127.0.0.1:{server.port}/judge", "caBundle": bundle(server.authority)}
            called = f'failed calling webhook "a.example.com": failed to call webhook: Post "{by_url["url"]}'
            failed = f'Internal error occurred: {called}?timeout=10s": '
            await configure(*validating, by_url)
            assert (await make("a"))[0] == 201
            path, review = hook.seen[0]
            assert (path, review["request"]["name"], review["request"]["operation"]) == (
                "/judge",
                "a",
                "CREATE",
            )
            hook.answer = lambda request: {
                "uid": request["uid"],
                "allowed": False,
                "status": {"message": "no"},
            }
            assert await make("b") == (400, 'admission webhook "a.example.com" denied the request: no')
            # What is no review.
            hook.code, hook.answer = 500, lambda request: "boom"
            said = 'an error on the server ("boom") has prevented the request from succeeding'
            start = (
                'Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: '
            )
            assert await make("b") == (500, start + said)
            hook.code = 404
            assert await make("b") == (500, f"{start}the server could not find the requested resource")
            # What is no connection.
            await configure(*validating, {**by_url, "caBundle": bundle(Authority("other"))})
            assert await make("b") == (500, f"{failed}x509: certificate signed by unknown authority")
            await configure(*validating, {"url": "https://127.0.0.1:9/judge"})
            refused = 'Post "https://127.0.0.1:9/judge?timeout=10s": dial tcp 127.0.0.1:9: connect: connection refused'
            assert await make("b") == (500, start + refused)
            await client.delete(f"{HOOKS}/{validating[1]}/{validating[0].lower()}")
            # A Service with an address outside, under the name of the Service.
            patch = b64encode(b'[{"op": "add", "path": "/data", "value": {"k": "v"}}]').decode()
            hook.code, hook.answer = (
                200,
                lambda request: {
                    "uid": request["uid"],
                    "allowed": True,
                    "patchType": "JSONPatch",
                    "patch": patch,
                },
            )
            mutating = "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"
            await configure(*mutating, {"service": service, "caBundle": bundle(server.authority)})
            code, text = await make("c")
            assert (code, 'service "policy" not found' in str(text)) == (500, True)
            spec = {"ports": [{"port": 443}]}
            await client.post(
                "/api/v1/namespaces/default/services", json={"metadata": {"name": "policy"}, "spec": spec}
            )
            code, made = await make("c")
            assert (code, made["data"]) == (201, {"k": "v"})
            assert hook.seen[-1][0] == "/change"
            await client.get("/metrics")  # what is counted begins with the first reader
            await make("d")
            counted = (await client.get("/metrics")).text
            labels = 'code="200",name="a.example.com",operation="CREATE",rejected="false",type="admit"'
            assert f"apiserver_admission_webhook_request_total{{{labels}}} 1" in counted
            assert 'aggregator_unavailable_apiservice{name="v1."} 0' in counted
            end_us = cluster.kernel.outside_now_us()
            cluster.kernel.set_rate(inf)
            await cluster.kernel.run_until(end_us)
        journal: Any = cluster.kernel.gate.journal
        count, sha = len(hook.seen), cluster.kernel.trace.sha256()
        assert count == 6
    again = Cluster(PLAN, seed=1, replay=list(journal))
    async with again:
        Gateway(again.kernel, again.api_servers)
        await again.run_until(end_us)
    assert again.kernel.trace.sha256() == sha
    stored = again.get("configmaps", "c")
    assert stored is not None
    assert stored["data"] == {"k": "v"}
