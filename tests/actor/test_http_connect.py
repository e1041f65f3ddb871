"""exec, attach, portforward and proxy over HTTP: every refusal that precedes a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from typing import Any

import httpx

from sim.app.cluster import Cluster
from tests.actor.test_http import PODS, served

UPGRADE = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
SERVICES, NODES = "/api/v1/namespaces/default/services", "/api/v1/nodes"
ADDRESS = "172.16.0.2"  # of node-0, on which nothing listens
REFUSED = f"error trying to reach service: dial tcp {ADDRESS}:80: connect: connection refused"


def pod(name: str, *containers: dict[str, Any], node: str = "") -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i", **each} for each in containers or ({},)]}
    return {"metadata": {"name": name}, "spec": {**spec, **({"nodeName": node} if node else {})}}


@asynccontextmanager
async def world(nodes: int = 0) -> AsyncIterator[tuple[Cluster, httpx.AsyncClient]]:
    """A served cluster in which time does not move, with the service account of pods."""
    async with served(nodes=nodes) as (cluster, client):
        cluster.kernel.set_rate(inf)
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        await make(client, accounts, {"metadata": {"name": "default"}})
        yield cluster, client


async def make(client: httpx.AsyncClient, path: str, obj: dict[str, Any]) -> None:
    found = await client.post(path, json=obj)
    assert found.status_code == 201, found.text


async def place(client: httpx.AsyncClient, name: str, address: str) -> None:
    """Give a pod an address, as its node agent would."""
    status = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
    headers = {"Content-Type": "application/merge-patch+json"}
    found = await client.patch(f"{PODS}/{name}/status", json=status, headers=headers)
    assert found.status_code == 200, found.text


async def said(
    client: httpx.AsyncClient, method: str, path: str, headers: dict[str, str] | None = None
) -> tuple[int, str]:
    found = await client.request(method, path, headers=headers)
    return found.status_code, str(found.json()["message"])


async def test_streams_are_refused_for_what_is_not_there() -> None:
    async with world() as (_, client):
        await make(client, NODES, {"metadata": {"name": "n"}})
        headers = {"Content-Type": "application/merge-patch+json"}
        status = {"status": {"addresses": [{"type": "Hostname", "address": "n"}]}}
        await client.patch(f"{NODES}/n/status", json=status, headers=headers)
        await make(client, PODS, pod("two", {}, {"name": "d"}, node="n"))
        await make(client, PODS, pod("one", node="n"))
        await make(client, PODS, pod("lost", node="absent"))
        await make(client, PODS, pod("waits"))
        missing = 'pods "absent" not found'
        several = "a container name must be specified for pod two, choose one of: [c d]"
        hostless = "pod waits does not have a host assigned"
        for sub in ("exec", "attach", "portforward"):
            for method in ("GET", "POST"):
                assert await said(client, method, f"{PODS}/absent/{sub}", UPGRADE) == (404, missing)
                assert await said(client, method, f"{PODS}/waits/{sub}", UPGRADE) == (400, hostless)
                plain = await said(client, method, f"{PODS}/one/{sub}?command=ls")
                assert plain == (400, "Upgrade request required")
            dry = await said(client, "POST", f"{PODS}/one/{sub}?dryRun=All", UPGRADE)
            assert dry == (400, "dryRun is not supported")
            host = await said(client, "POST", f"{PODS}/lost/{sub}", UPGRADE)
            assert host == (404, 'pods "absent" not found')
            assert (await said(client, "PUT", f"{PODS}/one/{sub}", UPGRADE))[0] == 405
        for sub in ("exec", "attach"):
            assert await said(client, "POST", f"{PODS}/two/{sub}", UPGRADE) == (400, several)
            wrong = await said(client, "POST", f"{PODS}/two/{sub}?container=z", UPGRADE)
            assert wrong == (400, "container z is not valid for pod two")
        body = {"content": b"\x00", "headers": {**UPGRADE, "Content-Type": "x/y", "Accept": "x/y"}}
        found = await client.post(f"{PODS}/absent/exec", **body)  # the body belongs to the stream
        assert found.status_code == 404


async def test_streams_before_an_agent_has_the_pod_and_after_its_death_are_refused() -> None:
    async with served(nodes=1) as (cluster, client):
        cluster.kernel.set_rate(inf)
        await cluster.run_until("5s")
        await make(client, PODS, pod("one", node="node-0"))
        address = (await client.get(f"{NODES}/node-0")).json()["status"]["addresses"][0]["address"]
        for sub in ("exec", "attach", "portforward"):
            early = await client.post(f"{PODS}/one/{sub}?stdout=true", headers=UPGRADE)
            assert (early.status_code, early.text) == (404, "pod does not exist")
        for name in ("node-0", "node-0:10250", "https:node-0:10250"):
            healthy = await client.get(f"{NODES}/{name}/proxy/healthz")
            assert (healthy.status_code, healthy.text) == (200, "ok")
        assert (await client.get(f"{NODES}/node-0/proxy")).status_code == 301
        gone = f"dial tcp {address}:10250: connect: connection refused"
        other = f"error trying to reach service: {gone}".replace("10250", "9100")
        assert await said(client, "GET", f"{NODES}/node-0:9100/proxy/") == (503, other)
        assert await said(client, "GET", f"{NODES}/x/proxy/") == (404, 'nodes "x" not found')
        wrong = await said(client, "GET", f"{NODES}/a:node-0:1/proxy/")
        assert wrong == (400, 'invalid node request "a:node-0:1"')
        cluster.fail_node("node-0", "power-loss")
        dialled = (500, f"error dialing backend: {gone}")
        assert await said(client, "POST", f"{PODS}/one/exec", UPGRADE) == dialled
        proxied = (503, f"error trying to reach service: {gone}")
        assert await said(client, "GET", f"{NODES}/node-0/proxy/healthz") == proxied


async def test_node_without_addresses_is_500_and_its_own_port_counts() -> None:
    async with world() as (_, client):
        await make(client, NODES, {"metadata": {"name": "n"}})
        headers = {"Content-Type": "application/merge-patch+json"}
        for addresses, shown in (([], ""), ([{"type": "Odd", "address": "x"}], "{Odd x}")):
            status = {"addresses": addresses, "daemonEndpoints": {"kubeletEndpoint": {"Port": 9}}}
            await client.patch(f"{NODES}/n/status", json={"status": status}, headers=headers)
            found = await said(client, "GET", f"{NODES}/n/proxy/")
            assert found == (500, f"no preferred addresses found; known addresses: [{shown}]")
        status = {"addresses": [{"type": "ExternalIP", "address": "10.9.9.9"}]}
        await client.patch(f"{NODES}/n/status", json={"status": status}, headers=headers)
        dialled = "error trying to reach service: dial tcp 10.9.9.9:9: connect: connection refused"
        assert await said(client, "GET", f"{NODES}/n:9/proxy/") == (503, dialled)


PROXIED = [
    ("web", 503, REFUSED.replace(":80", ":8080")),
    ("web:81", 503, REFUSED.replace(":80", ":81")),
    ("web:http", 503, REFUSED),
    ("web:odd", 503, "error trying to reach service: dial tcp: address tcp/odd: unknown port"),
    ("web:70000", 503, "error trying to reach service: dial tcp: address 70000: invalid port"),
    ("http:web:", 503, REFUSED.replace(":80", ":8080")),
    ("https:bare:", 503, REFUSED.replace(":80", ":443")),
    ("bare", 503, REFUSED),
    ("near", 400, "address not allowed"),
    ("waits", 400, "address not allowed"),
    ("absent:80", 404, 'pods "absent" not found'),
    ("ftp:web:80", 400, 'invalid pod request "ftp:web:80"'),
    (":80", 400, 'invalid pod request ":80"'),
    ("a:b:c:d", 400, 'invalid pod request "a:b:c:d"'),
]


async def test_proxy_of_a_pod_names_what_is_missing() -> None:
    async with world(1) as (_, client):
        await make(client, PODS, pod("web", {}, {"name": "d", "ports": [{"containerPort": 8080}]}))
        for each, address in {"web": ADDRESS, "bare": ADDRESS, "near": "127.0.0.1", "waits": ""}.items():
            if each != "web":
                await make(client, PODS, pod(each))
            if address:
                await place(client, each, address)
        for name, code, says in PROXIED:
            assert await said(client, "GET", f"{PODS}/{name}/proxy/x/?a=b") == (code, says)
            assert (await client.head(f"{PODS}/{name}/proxy/x")).status_code == code
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            assert await said(client, method, f"{PODS}/bare/proxy") == (503, REFUSED)


async def test_bare_proxy_is_redirected_and_an_upgrade_is_dialled() -> None:
    async with world(1) as (_, client):
        await make(client, PODS, pod("web"))
        await place(client, "web", ADDRESS)
        found = await client.get(f"{PODS}/web/proxy?a=b&upgrade=1")
        assert (found.status_code, found.content) == (301, b"")
        assert found.headers["Location"] == f"{PODS}/web/proxy/?a=b&upgrade=1"
        assert (await client.get(f"{PODS}/web/proxy?path=/x")).status_code == 301
        assert (await client.post(f"{PODS}/web/proxy")).status_code == 503
        dialled = f"error dialing backend: dial tcp {ADDRESS}:80: connect: connection refused"
        assert await said(client, "GET", f"{PODS}/web/proxy", UPGRADE) == (500, dialled)


async def test_proxy_of_a_service_names_what_is_missing() -> None:
    async with world(1) as (_, client):
        await make(client, PODS, pod("web"))
        await place(client, "web", ADDRESS)
        ports = [{"name": "a", "port": 90, "targetPort": 80}, {"name": "b", "port": 91}]
        await make(client, SERVICES, {"metadata": {"name": "s"}, "spec": {"ports": ports}})
        none = 'no endpoints available for service "s"'
        assert await said(client, "GET", f"{SERVICES}/s/proxy/") == (404, 'services "s" not found')
        assert await said(client, "GET", f"{SERVICES}/t:90/proxy/") == (404, 'services "t" not found')
        port = await said(client, "GET", f"{SERVICES}/s:80/proxy/")
        assert port == (503, 'no service port 80 found for service "s"')
        wrong = await said(client, "GET", f"{SERVICES}/x:s:80/proxy/")
        assert wrong == (400, 'invalid service request "x:s:80"')
        path = "/api/v1/namespaces/default/endpoints"
        await make(client, path, {"metadata": {"name": "s"}})
        assert await said(client, "GET", f"{SERVICES}/s:a/proxy/") == (503, none)
        target = {"kind": "Pod", "namespace": "default", "name": "web"}
        strangers = [{"ip": "10.1.0.8"}, {"ip": "10.1.0.7", "targetRef": target}]
        subset = {"addresses": strangers, "ports": [{"name": "a", "port": 80}]}
        headers = {"Content-Type": "application/merge-patch+json"}
        await client.patch(f"{path}/s", json={"subsets": [subset]}, headers=headers)
        empty = (503, none.replace('"s"', '"s:a"'))
        assert await said(client, "GET", f"{SERVICES}/s:a/proxy/") == empty
        subset["addresses"] = [*strangers, {"ip": ADDRESS, "targetRef": target}]
        await client.patch(f"{path}/s", json={"subsets": [subset]}, headers=headers)
        for name in ("s:a", "s:90", "http:s:a"):
            assert await said(client, "GET", f"{SERVICES}/{name}/proxy/x") == (503, REFUSED)
        assert (await said(client, "GET", f"{SERVICES}/s:b/proxy/"))[1] == none.replace('"s"', '"s:b"')


async def test_rights_are_checked_before_anything_else() -> None:
    async with world() as (_, client):
        headers = {**UPGRADE, "Impersonate-User": "carol"}
        for method, verb in (("POST", "create"), ("GET", "get")):
            for sub in ("exec", "attach", "portforward", "proxy"):
                code, says = await said(client, method, f"{PODS}/absent/{sub}?dryRun=All", headers)
                assert code == 403
                assert f'User "carol" cannot {verb} resource "pods/{sub}"' in says
        code, says = await said(client, "DELETE", f"{NODES}/n/proxy/x", headers)
        assert (code, 'cannot delete resource "nodes/proxy"' in says) == (403, True)
