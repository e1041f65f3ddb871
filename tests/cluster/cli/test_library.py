"""The library for authors of tests: errors in a `Cluster` are raised unchanged, and invalid input
is reported at once.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from sim.app.cli.main import main as main_of_cli
from sim.app.cluster import Cluster
from sim.app.run import run_plan
from sim.client import Client
from sim.errors import InputError
from sim.report import Timeline
from sim.scenario.compile import load
from sim.units import SECOND


class OwnError(Exception):
    """Raised by the user of the library."""


@pytest.mark.parametrize("run", ["", "1m"], ids=["before it runs", "after a while"])
async def test_error_of_the_callers_code_is_raised_unchanged(run: str) -> None:
    with pytest.raises(OwnError):
        async with Cluster(nodes=2) as cluster:
            if run:
                await cluster.run_for(run)
            raise OwnError


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (lambda c: c.fail_node("node-33", "hang"), "there is no node 'node-33' .did you mean 'node-"),
        (lambda c: c.fail_node("node-1", "powerloss"), "no node fails by 'powerloss' .one of: power-loss"),
        (lambda c: c.heal_node("x"), "there is no node 'x'"),
        (lambda c: c.list("podz"), "there is no resource 'podz' .did you mean 'pods'"),
        (lambda c: c.get("podz", "a"), "there is no resource 'podz'"),
        (lambda c: c.list("pods", selector="a=!"), "unable to parse requirement"),
        (lambda c: c.observe(print, ["nodes", "podz"]), "there is no resource 'podz' .did you mean 'pods'"),
        (lambda c: c.add_program("node-0", print), "there is a process 'node-0'"),
        (lambda c: c.apply("pod.yaml"), "an object is a mapping, not 'pod.yaml'"),
        (lambda c: c.apply({"kind": "Pod"}), "the object has no apiVersion"),
        (lambda c: c.apply({"apiVersion": "v1", "kind": "Pod"}), "the Pod has no metadata.name"),
        (
            lambda c: c.apply({"apiVersion": "apps/v2", "kind": "Deployment", "metadata": {"name": "a"}}),
            "there is no kind Deployment in apps/v2 .it is in apps/v1",
        ),
    ],
)
async def test_error_is_reported_with_its_place(use: Callable[[Cluster], Any], told: str) -> None:
    async with Cluster(nodes=2) as cluster:
        await cluster.run_for("10s")
        with pytest.raises(InputError, match=told):
            use(cluster)
        await cluster.run_for("10s")
        assert len(cluster.list("nodes")) == 2


async def test_cluster_shows_its_zones_in_a_notebook() -> None:
    async with Cluster(nodes=2) as cluster:
        assert "no nodes and no pods" in cluster._repr_html_()
        await cluster.run_for("10s")
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "held", "namespace": "default"}}
        cluster.apply(
            pod | {"spec": {"schedulerName": "mine", "containers": [{"name": "c", "image": "r/c:1"}]}}
        )
        await cluster.run_for("1s")
        shown = cluster._repr_html_()
    assert "cluster at 11s" in shown and "<th class=number>pods pending</th>" in shown
    rows = re.findall("<tr><td>(.*?)</td>(.*?)</tr>", shown)
    assert [(zone, re.findall(r"\d+", cells)) for zone, cells in rows] == [
        ("(none)", ["2", "2", "0"]), ("(no node)", ["0", "0", "1"]),
    ]  # fmt: skip


@pytest.mark.parametrize("duration", ["ten", "-1s", -1, 1.5])
async def test_invalid_duration_is_reported(duration: Any) -> None:
    async with Cluster() as cluster:
        for use in (cluster.run_for, cluster.run_until, lambda d: cluster.run_while(lambda: True, limit=d)):
            with pytest.raises(InputError, match=f"{duration!r} is no duration .write it as 90s"):
                await use(duration)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"nodes": -1}, "-1 is no number of nodes from 0 to 20000"),
        ({"nodes": "3"}, "'3' is no number of nodes"),
        ({"naming": "k8s"}, "there is no naming 'k8s' .one of: orch, kubernetes"),
        ({"boot": "soon"}, "'soon' is no duration"),
        ({"established": [{}]}, "the object has no apiVersion"),
        ({"seed": "7"}, "'7' is no seed .a whole number from 0"),
        ({"seed": 1.5}, "1.5 is no seed"),
        ({"seed": -1}, "-1 is no seed"),
        ({"trace": "/no/such/folder/trace"}, "/no/such/folder/trace: there is no folder"),
    ],
)
def test_invalid_part_of_a_cluster_is_reported(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        Cluster(**given)


async def test_progress_and_timeline_count_a_terminating_pod_as_not_running() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "finalizers": ["example.com/keep"]}}
    async with Cluster(nodes=2) as cluster:
        timeline = Timeline(cluster.names)
        cluster.observe(timeline.see, timeline.resources)
        cluster.apply({**pod, "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}]}})
        await cluster.run_for("1m")
        assert (cluster.counts()["running"], timeline.pods["running"].last) == (1, 1)
        cluster.fail_node("node-0", "power-loss")
        cluster.request("delete", "pods", "default", "a")
        await cluster.run_for("1m")
        ended = cluster.get("pods", "a", "default")
        assert ended["status"]["phase"] == "Running" and ended["metadata"]["deletionTimestamp"]
        counts = cluster.counts()
        assert (counts["pods"], counts["running"], timeline.pods["running"].last) == (1, 0, 0)


async def test_a_cluster_that_does_not_run_says_so() -> None:
    cluster = Cluster(nodes=1)
    with pytest.raises(InputError, match=r"the cluster is not running .use it within: async with"):
        await cluster.run_for("1s")
    async with cluster:
        await cluster.run_for("1s")
    with pytest.raises(InputError, match="the cluster is not running"):
        await cluster.run_while(lambda: True)


async def test_users_own_actor_runs_crashes_and_is_recorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[str] = []

    async def main(client: Client) -> None:
        seen.append("started")
        while True:
            await client.patch("nodes", "", "node-0", {"metadata": {"annotations": {"n": str(len(seen))}}})
            await client.ctx.sleep_us(SECOND)
            seen.append("passed")

    async with Cluster(nodes=1, naming="kubernetes", trace=str(tmp_path / "trace")) as cluster:
        program = cluster.add_program("own", main)
        await cluster.run_for("3500ms")
        assert seen == ["started", *["passed"] * 3]
        program.crash()
        await cluster.run_for("10s")
        assert len(seen) == 4
        program.start()
        await cluster.run_for("500ms")
        assert seen[4:] == ["started"]
    trace = str(tmp_path / "trace")
    assert main_of_cli(["why", trace, "node/node-0"]) == 0
    assert main_of_cli(["show", trace, "--actor", "own", "--grep", "^patches nodes/node-0"]) == 0
    assert capsys.readouterr().out.count("patches nodes/node-0") >= 3


async def test_program_has_the_rights_of_the_user_that_it_is_given() -> None:
    codes: dict[str, list[int]] = {}

    def program(name: str) -> Callable[[Client], Awaitable[None]]:
        async def main(client: Client) -> None:
            answers = [await client.list("nodes"), await client.list("configmaps", "default")]
            codes[name] = [answer.code for answer in answers]
            await client.ctx.forever()

        return main

    reference = {"apiGroup": "rbac.authorization.orch.io", "kind": "ClusterRole", "name": "view"}
    subjects = [{"kind": "ServiceAccount", "name": "bot", "namespace": "default"}]
    binding = {
        "apiVersion": "rbac.authorization.orch.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "b", "namespace": "default"},
        "roleRef": reference,
        "subjects": subjects,
    }
    async with Cluster() as cluster:
        cluster.apply(binding)
        await cluster.run_for("5s")
        cluster.add_program("admin-like", program("admin-like"))
        cluster.add_program("bot", program("bot"), user="system:serviceaccount:default:bot")
        cluster.add_program("alice", program("alice"), user="alice", groups=("dev",))
        await cluster.run_for("5s")
    assert codes == {"admin-like": [200, 200], "bot": [403, 200], "alice": [403, 403]}


async def test_a_program_of_ones_own_is_part_of_a_scenario(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(
        """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: own}
spec:
  duration: 20s
  cluster: {nodes: [{count: 1}]}
  expect: [{name: it was here, when: nodes named node-0 are cordoned, within: [0s, 19s]}]
"""
    )

    async def cordon(client: Client) -> None:
        while not (await client.patch("nodes", "", "node-0", {"spec": {"unschedulable": True}})).ok:
            await client.ctx.sleep_us(SECOND)

    plan = load(str(tmp_path / "s.yaml"))
    assert not (await run_plan(plan)).ok
    result = await run_plan(plan, prepare=lambda c: c.add_program("cordon", cordon))
    assert result.ok, result.verdicts


async def test_an_error_of_a_program_of_ones_own_ends_the_run() -> None:
    async def main(client: Client) -> None:
        await client.ctx.sleep_us(SECOND)
        raise OwnError

    with pytest.RaisesGroup(OwnError, flatten_subgroups=True):
        async with Cluster() as cluster:
            cluster.add_program("own", main)
            await cluster.run_for("10s")


async def test_what_the_api_refuses_is_kept() -> None:
    async with Cluster(nodes=1) as cluster:
        cluster.apply(
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {}}
        )
        await cluster.run_for("10s")
        (told,) = cluster.refused
        assert told.startswith("apply deployments/web at ") and ": Invalid: " in told
