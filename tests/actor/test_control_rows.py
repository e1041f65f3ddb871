"""What viewers of a served cluster get of workloads, leaders, processes, links and requests."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio

from sim.app.control import changes as changes_module
from tests.actor.steered import Steered, steered
from tests.actor.test_control_api import UNKNOWN, messages_of, ok, ready

pytestmark = pytest.mark.slow
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: i}]}
"""
SCENARIO = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: two}
spec:
  duration: 1s
  cluster:
    naming: kubernetes
    nodes: [{count: 4, zones: [a, b]}]
    apiServer: {replicas: 2}
    scheduler: {replicas: 2}
  objects: [web.yaml]
"""


async def history(at: Steered, kind: str) -> list[Any]:
    rows = (await ok(await at.ask("GET", f"/history?kinds={kind}")))["rows"]
    assert {row[0] for row in rows} <= {kind}
    return [row[1:] for row in rows]


def scenario(folder: Path) -> str:
    (folder / "web.yaml").write_text(DEPLOYMENT)
    (folder / "two.yaml").write_text(SCENARIO)
    return str(folder / "two.yaml")


async def test_rows_show_how_many_pods_of_a_workload_are_available(tmp_path: Path) -> None:
    async with steered(tmp_path, scenario=scenario(tmp_path)) as at:
        await ok(await at.ask("POST", "/time/run", {"for": "1m"}))
        counts = [(row[2], row[3]) for row in await history(at, "workload")]
        assert (counts[0], counts[-1]) == ((0, 4), (4, 4))
        delete = {"delete": {"resource": "deployments", "name": "web"}}
        await ok(await at.ask("POST", "/steps", delete))
        await ok(await at.ask("POST", "/time/run", {"for": "5s"}))
        assert (await history(at, "workload"))[-1][1:] == ["deployment default/web", 0, None]


async def test_rows_show_which_links_a_partition_cuts_and_that_it_ends(tmp_path: Path) -> None:
    async with steered(tmp_path, scenario=scenario(tmp_path)) as at:
        await ready(at)
        cut = {"name": "cut", "partition": {"between": ["zone a", "apiserver"]}}
        await ok(await at.ask("POST", "/steps", cut))
        await ok(await at.ask("POST", "/time/run", {"for": "5s"}))
        await ok(await at.ask("POST", "/steps", {"heal": {"step": "cut"}}))
        await ok(await at.ask("POST", "/time/run", {"for": "5s"}))
        states = [row[2] for row in await history(at, "link") if row[1] == "zone a – apiserver"]
        assert states == ["open", "cut", "open"]
        assert {row[2] for row in await history(at, "link") if row[1] == "zone b – apiserver"} == {"open"}


async def test_lease_that_ran_out_is_a_row_with_its_last_renewal(tmp_path: Path) -> None:
    async with steered(tmp_path, scenario=scenario(tmp_path)) as at:
        await ok(await at.ask("POST", "/time/run", {"for": "30s"}))
        await ok(await at.ask("POST", "/steps", {"stall": {"actor": "scheduler-leader"}, "for": "1m"}))
        await ok(await at.ask("POST", "/time/run", {"for": "1m"}))
        leads = [row for row in await history(at, "leader") if row[1] == "kube-system/kube-scheduler"]
        before, after = leads[-2:]
        assert before[2].partition("_")[0] != after[2].partition("_")[0]
        assert 15e6 < after[0] - after[3] < 25e6
        paused = [row for row in await history(at, "process") if row[2] == "paused"]
        assert [row[1] for row in paused] == [before[2].partition("_")[0]]


async def test_requests_of_a_time_are_counted_by_client_and_code(tmp_path: Path) -> None:
    async with steered(tmp_path) as at:
        await ok(await at.ask("POST", "/time/run", {"for": "1m"}))
        for _ in range(3):
            await at.clients["root"].get("/api/v1/nodes/nothing", headers={"User-Agent": "probe/1"})
        await ok(await at.ask("POST", "/time/run", {"for": "10s"}))
        samples = await history(at, "requests")
        assert all(one[1] == before[0] for before, one in pairwise(samples))
        counted = [(client, code, n) for row in samples for client, code, n in row[2] if client == "probe"]
        assert counted == [("probe", 404, 3)]
        servers = at.cluster.api_servers.values()
        assert sum(sum(server.tally.values()) for server in servers) == sum(one.flown for one in servers)


async def test_history_keeps_what_forgotten_rows_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes_module, "ROWS_MAX", 40)
    async with steered(tmp_path) as at:
        await ok(await at.ask("POST", "/time/run", {"for": "10m"}))
        assert [row[1] for row in await history(at, "node")] == ["node-0", "node-1", "node-2"]
        refused = await at.ask("GET", "/history?kinds=nodes")
        assert refused.status_code == 422


async def test_expectation_has_the_instant_at_which_it_turned(tmp_path: Path) -> None:
    async with steered(tmp_path) as at, messages_of(at.clients["root"]) as following:
        await ready(at)
        await ok(await at.ask("POST", "/expectations", {"name": "all well", "never": UNKNOWN["condition"]}))
        lost = {"fail": {"nodes": {"name": "node-0"}, "how": "power-loss"}}
        await ok(await at.ask("POST", "/steps", lost))
        ran = await ok(await at.ask("POST", "/time/run", UNKNOWN))
        judged: list[Any] = []
        with trio.fail_after(30):
            while not judged or judged[0]["state"] != "failed":
                judged = (await following()).get("judged", judged)
        assert judged[0]["at_us"] == ran["virtual_us"]
