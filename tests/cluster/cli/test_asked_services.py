"""Services that judge requests: the mode Webhook and ImagePolicyWebhook, inside and outside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from sim.api.types import Obj, UserInfo
from sim.app.cluster import Cluster
from sim.app.serving.serve import served
from sim.errors import InputError
from sim.kernel import NEVER_US
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from tests.actor.apiserver.cluster import ADMIN, request
from tests.cluster.cli.outside_server import ROOT, any_certificate, bundle, listening

URL = "https://judge.example.com/authorize"
MAPS = "/api/v1/namespaces/default/configmaps"
ANN = UserInfo("ann", ("system:authenticated",))


def kubeconfig(folder: Path, url: str = URL, authority: str = "") -> str:
    cluster = {"server": url, **({"certificate-authority-data": authority} if authority else {})}
    value = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "s", "user": "u"}}],
        "clusters": [{"name": "s", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
    }
    path = folder / "service.yaml"
    path.write_text(yaml.safe_dump(value))
    return str(path)


def plan(flags: dict[str, Any]) -> ClusterPlan:
    return ClusterPlan(naming="kubernetes", nodes=(), api_server=ComponentPlan(flags=flags))


def webhook_mode(path: str) -> ClusterPlan:
    return plan({"authorization-mode": "RBAC,Webhook", "authorization-webhook-config-file": path})


async def ask(
    cluster: Cluster, user: UserInfo, verb: str, body: Any = None, plural: str = "configmaps"
) -> tuple[int, str]:
    got: list[Any] = []
    asked = request(verb, plural, "default", "x" if verb == "get" else "", body=body, user=user)
    cluster.api_servers["apiserver-0"].handle(asked, got.append)
    await cluster.run_for("1s")
    return got[0].code, got[0].message


async def test_function_judges_requests_that_roles_do_not_allow(tmp_path: Path) -> None:
    reviews: list[Obj] = []
    allowed = True

    def decide(review: Obj) -> Obj:
        reviews.append(review["spec"])
        return {"allowed": allowed, "reason": "as the judge says"}

    async with Cluster(webhook_mode(kubeconfig(tmp_path)), seed=1) as cluster:
        cluster.add_webhook(URL, decide)
        await cluster.run_for("1s")
        reviews.clear()
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
        assert (await ask(cluster, ANN, "create", made))[0] == 201
        assert [(each["user"], each["resourceAttributes"]["verb"]) for each in reviews] == [("ann", "create")]
        assert (await ask(cluster, ANN, "get"))[0] == 200
        assert (await ask(cluster, ANN, "get"))[0] == 200
        assert len(reviews) == 2  # the second answer is remembered
        allowed = False
        await cluster.run_for("301s")
        refused = 'configmaps "x" is forbidden: User "ann" cannot get resource "configmaps" in API group "" in the namespace "default": as the judge says'
        assert await ask(cluster, ANN, "get") == (403, refused)


async def test_service_that_is_not_reached_is_an_internal_error(tmp_path: Path) -> None:
    async with Cluster(webhook_mode(kubeconfig(tmp_path)), seed=1) as cluster:
        await cluster.run_for("1s")
        dial = "dial tcp judge.example.com:443: connect: connection refused"
        text = f'Internal error occurred: Post "{URL}?timeout=30s": {dial}'
        assert await ask(cluster, ANN, "get") == (500, text)


async def test_outside_service_judges_paths_and_objects_with_its_token(tmp_path: Path) -> None:
    seen: list[tuple[str, Any]] = []

    def page(path: str, headers: dict[str, str], body: Any) -> tuple[int, Any]:
        spec = body["spec"]
        seen.append((headers.get("authorization", ""), spec))
        may = spec.get("nonResourceAttributes", {}).get("path") != "/metrics"
        return 201, {**body, "status": {"allowed": may and spec["user"] == "ann"}}

    async with listening(page, "judge") as server:
        url = f"https://127.0.0.1:{server.port}/authorize"
        given = webhook_mode(kubeconfig(tmp_path, url, bundle(server.authority)))
        tokens = {**ROOT, "ann": ANN}
        async with (
            Cluster(given, seed=1) as cluster,
            served(cluster, None, 5, tokens=tokens) as base,
            httpx.AsyncClient(
                base_url=base, verify=any_certificate(), headers={"Authorization": "Bearer ann"}
            ) as client,
        ):
            cluster.kernel.set_goal(NEVER_US)
            assert (await client.get(MAPS)).status_code == 200
            assert (await client.get("/metrics")).status_code == 403
            acting = await client.get(MAPS, headers={"Impersonate-User": "bob"})
            assert acting.status_code == 403  # ann may impersonate, and bob may not read
            users = [spec["user"] for _, spec in seen]
            assert users.count("bob") >= 1
            assert {header for header, _ in seen} == {"Bearer secret"}


async def test_image_policy_refuses_pods_and_remembers_its_answer(tmp_path: Path) -> None:
    reviews: list[Obj] = []

    def decide(review: Obj) -> Obj:
        reviews.append(review["spec"])
        bad = any("bad" in each["image"] for each in review["spec"]["containers"])
        return {"allowed": not bad, "reason": "bad image" if bad else ""}

    configuration = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [
            {
                "name": "ImagePolicyWebhook",
                "configuration": {"imagePolicy": {"kubeConfigFile": kubeconfig(tmp_path)}},
            }
        ],
    }
    flags: dict[str, Any] = {
        "enable-admission-plugins": "ImagePolicyWebhook",
        "admission-control-config-file": configuration,
    }
    async with Cluster(plan(flags), seed=1) as cluster:

        def pod(name: str, image: str) -> Obj:
            spec = {"containers": [{"name": "c", "image": image}]}
            return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

        await cluster.run_for("3s")
        cluster.add_webhook(URL, decide)
        cluster.apply(pod("a", "good"), pod("b", "good"))
        await cluster.run_for("1s")
        assert [each["metadata"]["name"] for each in cluster.list("pods")] == ["a", "b"]
        text = 'pods "c" is forbidden: image policy webhook backend denied one or more images: bad image'
        assert await ask(cluster, ADMIN, "create", pod("c", "bad"), "pods") == (403, text)
        assert [each["containers"] for each in reviews] == [[{"image": "good"}], [{"image": "bad"}]]
        assert reviews[0]["namespace"] == "default"


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({"authorization-mode": "Webhook"}, "Webhook's authorization config file not passed"),
        ({"authorization-webhook-config-file": "x"}, "without mode Webhook"),
        ({"enable-admission-plugins": "ImagePolicyWebhook"}, "ImagePolicyWebhook has no service"),
    ],
)
def test_mode_or_plugin_without_its_file_is_refused(flags: dict[str, str], text: str) -> None:
    with pytest.raises(InputError, match=text):
        Cluster(plan(flags))
