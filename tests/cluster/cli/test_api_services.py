"""Aggregated APIs: functions of the library and servers outside behind APIServices."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from sim.api.aggregation.delegation import Forwarded
from sim.api.types import Obj, UserInfo
from sim.app.cluster import Cluster
from sim.app.parts.api_services import ApiRequest, resource_list
from sim.app.serving.serve import served
from sim.kernel import NEVER_US, OutsideAnswer
from sim.scenario.plan.plan import ClusterPlan
from tests.cluster.cli.outside_server import ROOT, any_certificate, bundle, listening

PLAN = ClusterPlan(naming="kubernetes", nodes=())
APIS = "/apis/apiregistration.k8s.io/v1/apiservices"
TRUST = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
GROUP = "wardle.example.com"


def api_service(**spec: Any) -> Obj:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{GROUP}"},
        "spec": {
            "group": GROUP,
            "version": "v1",
            "groupPriorityMinimum": 1000,
            "versionPriority": 15,
            "service": {"name": "wardle", "namespace": "default"},
            "insecureSkipTLSVerify": True,
            **spec,
        },
    }


def service(kind: str = "ClusterIP", **spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "wardle"},
        "spec": {"type": kind, "ports": [{"port": 443, "name": "https"}], **spec},
    }


def condition(obj: Obj | None) -> tuple[str, str, str]:
    assert obj is not None
    conditions = obj["status"].get("conditions") or [{"status": "", "reason": "", "message": ""}]
    return conditions[0]["status"], conditions[0]["reason"], conditions[0]["message"]


async def test_function_behind_an_api_service_is_checked_and_gets_requests() -> None:
    seen: list[ApiRequest] = []
    code = 200

    def serve(request: ApiRequest) -> tuple[int, Obj]:
        seen.append(request)
        return code, resource_list(f"{GROUP}/v1")

    async with Cluster(naming="kubernetes") as cluster:

        def now() -> tuple[str, str, str]:
            return condition(cluster.get("apiservices", f"v1.{GROUP}"))

        async def ask(path: str) -> OutsideAnswer:
            got: list[OutsideAnswer] = []
            request = Forwarded("GET", path, "", (), b"", UserInfo("ann", ("dev",)))
            cluster.api_servers["apiserver-0"].aggregator.forward(request, got.append)
            await cluster.run_for("1s")
            return got[0]

        await cluster.run_for("1s")
        before = cluster.kernel.steps
        cluster.add_api_service("default/wardle", serve)
        cluster.apply(api_service())
        await cluster.run_for("1s")
        assert now() == ("False", "ServiceNotFound", 'service/wardle in "default" is not present')
        assert (await ask(f"/apis/{GROUP}/v1")).body == b"service unavailable\n"
        cluster.apply(service(clusterIP="10.0.0.77"))
        await cluster.run_for("1s")
        assert (cluster.refused, now()[1]) == ((), "EndpointsNotFound")
        endpoints = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "wardle"}}
        subset = {"addresses": [{"ip": "10.1.1.1"}], "ports": [{"name": "https", "port": 443}]}
        cluster.apply({**endpoints, "subsets": [subset]})
        await cluster.run_for("1s")
        assert now() == ("True", "Passed", "all checks passed")
        assert (seen[-1].path, seen[-1].user.name) == (f"/apis/{GROUP}/v1", "system:kube-aggregator")
        assert (await ask(f"/apis/{GROUP}/v1/flunders")).code == 200
        assert seen[-1].user == UserInfo("ann", ("dev",))
        code = 500
        await cluster.run_for("31s")
        url = f"https://10.0.0.77:443/apis/{GROUP}/v1"
        assert now() == (
            "False",
            "FailedDiscoveryCheck",
            f"failing or missing response from {url}: bad status from {url}: 500",
        )
        code = 200
        await cluster.run_for("31s")
        assert now()[1] == "Passed"
        cluster.apply({**endpoints, "subsets": []})
        await cluster.run_for("1s")
        assert now()[1] == "MissingEndpoints"
        assert before < cluster.kernel.steps


async def test_namespace_ends_once_its_aggregated_objects_are_deleted() -> None:
    seen: list[tuple[str, str, str]] = []
    stored, refuses = {"a": [{"metadata": {"name": "x"}}]}, True

    def serve(request: ApiRequest) -> tuple[int, Obj]:
        parts = request.path.split("/")
        if len(parts) == 4:
            row = {"name": "flunders", "kind": "Flunder", "namespaced": True}
            return 200, resource_list(f"{GROUP}/v1", {**row, "verbs": ["delete", "deletecollection", "list"]})
        seen.append((request.method, request.path, request.user.name))
        if request.method == "DELETE":
            if refuses:
                return 500, {"message": "broken"}
            stored[parts[5]] = []
        return 200, {"items": stored[parts[5]], "metadata": {"resourceVersion": "7"}}

    async with Cluster(naming="kubernetes") as cluster:
        cluster.apply(service("ExternalName", externalName="flunders.invalid"), api_service())
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
        cluster.add_api_service("default/wardle", serve)
        await cluster.run_for("2s")
        cluster.request("delete", "namespaces", "", "a")
        await cluster.run_for("8s")
        path = f"/apis/{GROUP}/v1/namespaces/a/flunders"
        assert seen[0] == ("DELETE", path, "system:serviceaccount:kube-system:namespace-controller")
        namespace = cluster.get("namespaces", "a")
        assert namespace is not None
        failure = next(
            each
            for each in namespace["status"]["conditions"]
            if each["type"] == "NamespaceDeletionContentFailure"
        )
        assert failure["message"] == (
            "Failed to delete all resource types, 1 remaining: an error on the server "
            f'("unknown") has prevented the request from succeeding (delete flunders.{GROUP})'
        )
        refuses = False
        await cluster.run_for("30s")
        assert cluster.get("namespaces", "a") is None
        assert seen[-1][:2] == ("GET", path)


async def test_outside_server_gets_requests_with_their_user_and_joins_discovery() -> None:
    got: list[tuple[str, dict[str, str]]] = []

    def page(path: str, headers: dict[str, str], body: Any) -> tuple[int, Any]:
        got.append((path, headers))
        if path == f"/apis/{GROUP}/v1":
            return 200, resource_list(
                f"{GROUP}/v1", {"name": "flunders", "kind": "Flunder", "namespaced": True, "verbs": ["get"]}
            )
        if path == "/openapi/v3":
            return 200, {"paths": {f"apis/{GROUP}/v1": {"serverRelativeURL": "/openapi/v3/x"}}}
        return 201, {"kind": "Flunder", "seen": body}

    async with listening(page, "wardle.default.svc") as server:
        addresses = {"default/wardle": ("127.0.0.1", server.port)}
        cluster = Cluster(PLAN)
        async with (
            cluster,
            served(cluster, None, 4, tokens=ROOT, service_addresses=addresses, front_proxy=True) as url,
            httpx.AsyncClient(
                base_url=url, verify=any_certificate(), headers={"Authorization": "Bearer root"}
            ) as client,
        ):
            cluster.kernel.set_goal(NEVER_US)
            await client.post("/api/v1/namespaces/default/services", json=service())
            await client.post(
                APIS, json=api_service(insecureSkipTLSVerify=False, caBundle=bundle(server.authority))
            )
            # The server trusts front proxies as the ConfigMap says.
            trust = (await client.get(TRUST)).json()["data"]
            server.context.load_verify_locations(cadata=trust["requestheader-client-ca-file"])
            assert trust["requestheader-allowed-names"] == '["front-proxy-client"]'
            while condition((await client.get(f"{APIS}/v1.{GROUP}")).json())[0] != "True":
                await client.get("/version")
            groups = [each["name"] for each in (await client.get("/apis")).json()["groups"]]
            assert groups[0] == "apiregistration.k8s.io"
            assert groups[-1] == GROUP
            assert (await client.get(f"/apis/{GROUP}")).json()["preferredVersion"]["version"] == "v1"
            listed = (await client.get(f"/apis/{GROUP}/v1")).json()
            assert [each["name"] for each in listed["resources"]] == ["flunders"]
            made = await client.post(f"/apis/{GROUP}/v1/namespaces/a/flunders?x=1", json={"a": 1})
            assert (made.status_code, made.json()) == (201, {"kind": "Flunder", "seen": {"a": 1}})
            path, headers = next(each for each in got if "/namespaces/" in each[0])
            assert path == f"/apis/{GROUP}/v1/namespaces/a/flunders"
            assert (headers["x-remote-user"], headers["x-remote-group"]) == ("admin", "system:authenticated")
            assert "authorization" not in headers
            assert headers["peer"] == "front-proxy-client"
            while f"apis/{GROUP}/v1" not in (await client.get("/openapi/v3")).json()["paths"]:
                await client.get("/version")
            await client.delete("/api/v1/namespaces/default/services/wardle")
            refused = await client.get(f"/apis/{GROUP}/v1/flunders")
            while refused.status_code != 503:
                refused = await client.get(f"/apis/{GROUP}/v1/flunders")
            assert refused.text == "service unavailable\n"


@pytest.mark.parametrize("address", ["wardle", "a/b/c", "/x"])
async def test_function_at_a_malformed_address_is_refused(address: str) -> None:
    async with Cluster() as cluster:
        with pytest.raises(Exception, match="no Service has the address"):
            cluster.add_api_service(address, lambda request: (200, {}))


async def test_definition_has_an_api_service_while_it_exists() -> None:
    schema = {"openAPIV3Schema": {"type": "object"}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"flunders.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "flunders", "kind": "Flunder"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    async with Cluster(naming="kubernetes") as cluster:
        await cluster.run_for("1s")
        cluster.apply(definition)
        await cluster.run_for("1s")
        assert condition(cluster.get("apiservices", f"v1.{GROUP}"))[1] == "Local"
        cluster.request("delete", "apiservices", "", f"v1.{GROUP}")
        await cluster.run_for("1s")
        assert cluster.get("apiservices", f"v1.{GROUP}") is not None
        cluster.request("delete", "customresourcedefinitions", "", f"flunders.{GROUP}")
        await cluster.run_for("10s")
        assert cluster.get("apiservices", f"v1.{GROUP}") is None
