"""Programs of images that are servers on the user's machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from sim import load, run_plan
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.app.serving.serve import served
from sim.errors import InputError
from sim.kernel import NEVER_US
from sim.scenario.plan.plan import ClusterPlan, ForwardPlan, PodNetworkPlan
from tests.cluster.cli.outside_server import ROOT, any_certificate

PODS = "/api/v1/namespaces/default/pods"
SCENARIO = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: real}
spec:
  cluster:
    nodes: [{count: 1}]
    programs:
      own:1: {forward: "%s"}
  duration: 10s
"""


async def real_server(stream: trio.SocketStream) -> None:
    """Answer each request with its first line and its body."""
    held = b""
    while data := await stream.receive_some():
        held += data
        head, end, body = held.partition(b"\r\n\r\n")
        size = int((head.lower().partition(b"content-length: ")[2].splitlines() or [b"0"])[0])
        if end and len(body) >= size:
            said = head.splitlines()[0] + b"|" + body
            await stream.send_all(
                b"HTTP/1.1 200 OK\r\nX-Real: yes\r\nContent-Length: %d\r\n\r\n" % len(said) + said
            )
            held = b""


@pytest.mark.slow
async def test_requests_to_a_pod_reach_a_server_on_this_machine_while_served() -> None:
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def serve(task_status: Any) -> None:
            with scope:
                await trio.serve_tcp(real_server, 0, host="127.0.0.1", task_status=task_status)

        [listener] = await nursery.start(serve)
        address = f"127.0.0.1:{listener.socket.getsockname()[1]}"
        plan = ClusterPlan(
            naming="kubernetes", nodes=plain_nodes(1), pods=PodNetworkPlan({"own:1": ForwardPlan(address)})
        )
        cluster = Cluster(plan, seed=1)
        async with (
            cluster,
            served(cluster, None, 5, tokens=ROOT) as url,
            httpx.AsyncClient(
                base_url=url, verify=any_certificate(), headers={"Authorization": "Bearer root"}
            ) as client,
        ):
            await cluster.run_until("30s")
            for name, image in (("real", "own:1"), ("other", "own:2")):
                spec = {"containers": [{"name": "c", "image": image}]}
                await client.post(PODS, json={"metadata": {"name": name}, "spec": spec})
            await cluster.run_until("60s")
            cluster.kernel.set_rate(10)
            cluster.kernel.set_goal(NEVER_US)
            with trio.fail_after(30):
                found = await client.post(f"{PODS}/real:8080/proxy/a?b=c", content=b"x" * 100_000)
                assert (found.status_code, found.headers["x-real"]) == (200, "yes")
                assert found.content == b"POST /a?b=c HTTP/1.1|" + b"x" * 100_000
                refused = await client.get(f"{PODS}/other:8080/proxy/a")
                assert "connection refused" in refused.json()["message"]
                scope.cancel()
                gone = await client.get(f"{PODS}/real:8080/proxy/a")
                assert gone.status_code == 503
        nursery.cancel_scope.cancel()


def test_a_forwarded_program_has_a_host_and_a_port(tmp_path: Path) -> None:
    path = tmp_path / "real.yaml"
    for address in ("9000", "x:", ":9", "x:0", "x:99999"):
        path.write_text(SCENARIO % address)
        with pytest.raises(InputError) as failed:
            load(path)
        assert f"'{address}' is no HOST:PORT" in str(failed.value)
    path.write_text(SCENARIO % "127.0.0.1:9000")
    assert load(path).cluster.pods.servers["own:1"].address == "127.0.0.1:9000"


async def test_a_run_that_is_not_served_refuses_a_forwarded_program(tmp_path: Path) -> None:
    path = tmp_path / "real.yaml"
    path.write_text(SCENARIO % "127.0.0.1:9000")
    with pytest.raises(InputError) as failed:
        await run_plan(load(path))
    assert "so that this run would not repeat" in str(failed.value)
    assert "orrery serve" in str(failed.value)
    assert "real.yaml:9" in str(failed.value)
