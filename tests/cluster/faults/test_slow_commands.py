"""Commands of probes and hooks take time, and containers without processor time answer late."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.node.runtime.probe_answers import answer_of
from sim.app.cluster import Cluster
from sim.app.plain_plan import plain_nodes
from sim.errors import InputError
from sim.kernel.pace import NEVER_US
from sim.scenario.compile import compile_plan
from sim.scenario.plan.plan import ClusterPlan
from sim.scenario.read.source import Document
from sim.units import MS, SECOND

SLOW_PULSE = {"periodSeconds": 10, "timeoutSeconds": 2}


def pod(name: str = "web", **container: Any) -> dict[str, Any]:
    """A pod of one container that sleeps, unless it has another command or image."""
    whole = {"name": "c", "image": "busybox", "command": ["sleep", "3600"], **container}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [whole]}}


def shell(script: str) -> dict[str, Any]:
    return {"exec": {"command": ["sh", "-c", script]}}


def ready(cluster: Cluster, name: str = "web") -> bool:
    found = cluster.get("pods", name)
    assert found is not None
    return ready_in(found)


def ready_in(obj: dict[str, Any]) -> bool:
    """True if the status of a pod shows its container as ready."""
    return any(one["ready"] for one in obj.get("status", {}).get("containerStatuses") or ())


def restarts(cluster: Cluster, name: str = "web") -> int:
    found = cluster.get("pods", name)
    assert found is not None
    return int(found["status"]["containerStatuses"][0]["restartCount"])


def messages(cluster: Cluster, reason: str = "Unhealthy") -> set[str]:
    return {event["message"] for event in cluster.list("events") if event["reason"] == reason}


def plan(**flags: Any) -> ClusterPlan:
    (node,) = plain_nodes(1)
    return ClusterPlan(nodes=(replace(node, flags=flags),))


@pytest.mark.parametrize(
    ("command", "took_us", "succeeds"),
    [
        (["sleep", "5"], 5 * SECOND, True),
        (["sh", "-c", "sleep 5 && exit 0"], 5 * SECOND, True),
        (["sh", "-c", "sleep 1; sleep 2; exit 3"], 3 * SECOND, False),
        (["sh", "-c", "sleep 2; curl -f localhost:80"], 2 * SECOND, True),
        (["sh", "-c", "false && sleep 5"], 0, False),
        (["sleep", "infinity"], NEVER_US, True),
        (["true"], 0, True),
    ],
)
def test_command_takes_the_time_that_it_sleeps(command: list[str], took_us: int, succeeds: bool) -> None:
    probe = {"exec": {"command": command}}
    answer = answer_of(pod(readinessProbe=probe)["spec"], "Readiness", "c")
    assert answer is not None
    assert (answer.took_us, answer.succeeds(0)) == (took_us, succeeds)


async def test_probe_of_five_seconds_succeeds_five_seconds_later_within_its_timeout() -> None:
    probe = {**shell("sleep 5 && exit 0"), "periodSeconds": 30}
    async with Cluster(plan()) as cluster:
        for name, timeout_s in (("in-time", 6), ("late", 5), ("default", None)):
            timeout = {} if timeout_s is None else {"timeoutSeconds": timeout_s}
            cluster.apply(pod(name, readinessProbe={**probe, **timeout}))
        ready_us: list[int] = []
        cluster.observe(
            lambda change: ready_us.append(change.at_us) if ready_in(change.item.obj) else None, ["pods"]
        )
        await cluster.run_for("45s")
        assert [ready(cluster, name) for name in ("in-time", "late", "default")] == [True, False, False]
        agent = cluster.nodes["node-0"].machine.agent
        assert agent is not None
        (tick_us,) = [
            probe._first_us
            for worker in agent.workers.values()
            for probe in worker.probes
            if worker.pod["metadata"]["name"] == "in-time"
        ]
        assert 5 * SECOND <= ready_us[0] - tick_us <= 6 * SECOND
        assert messages(cluster) == {'Readiness probe failed: command "sh -c sleep 5 && exit 0" timed out'}
        await cluster.run_for("90s")
        assert not ready(cluster, "late")


async def test_slow_liveness_probe_restarts_its_container_again_and_again() -> None:
    probe = {"exec": {"command": ["sleep", "5"]}, "periodSeconds": 10, "failureThreshold": 3}
    async with Cluster(plan()) as cluster:
        cluster.apply(pod(livenessProbe=probe))
        await cluster.run_for("60s")
        assert restarts(cluster) == 0  # SIGTERM is ignored for 30 s
        await cluster.run_for("30s")
        assert restarts(cluster) == 1
        await cluster.run_for("3m")
        assert restarts(cluster) >= 3


async def test_slow_probe_without_the_gate_is_an_error_without_result() -> None:
    gate = {"feature-gates": "ExecProbeTimeout=false"}
    probe = {"exec": {"command": ["sleep", "5"]}, "periodSeconds": 10, "failureThreshold": 1}
    async with Cluster(plan(**gate)) as cluster:
        cluster.apply(pod(livenessProbe=probe))
        await cluster.run_for("2m")
        assert restarts(cluster) == 0
        assert messages(cluster) == {'Liveness probe errored: command "sleep 5" timed out'}


async def test_probes_of_late_containers_fail_until_the_fault_ends() -> None:
    http, command = {"httpGet": {"path": "/up", "port": 80}}, {"exec": {"command": ["true"]}}
    tcp, port = {"tcpSocket": {"port": 80}}, {"ports": [{"containerPort": 80}]}
    app = {"image": "example.com/app:1", "command": ["/app"]}
    async with Cluster(plan()) as cluster:
        for name, probe in (("http", http), ("tcp", tcp)):
            cluster.apply(pod(name, **app, **port, readinessProbe={**probe, **SLOW_PULSE}))
        cluster.apply(pod("exec", readinessProbe={**command, **SLOW_PULSE}))
        await cluster.run_for("30s")
        names = ("http", "tcp", "exec")
        assert [ready(cluster, name) for name in names] == [True, True, True]
        cluster.do.workload(late="1s", name="")
        await cluster.run_for("1m")
        assert [ready(cluster, name) for name in names] == [True, True, True]
        cluster.do.workload(late="3s", for_="2m")
        await cluster.run_for("1m")
        assert [ready(cluster, name) for name in names] == [False, True, False]
        texts = sorted(messages(cluster))
        assert 'Readiness probe failed: command "true" timed out' in texts[1]
        assert texts[0].startswith('Readiness probe failed: Get "http://')
        assert texts[0].endswith("(Client.Timeout exceeded while awaiting headers)")
        await cluster.run_for("2m")
        assert [ready(cluster, name) for name in names] == [True, True, True]


async def test_probe_of_a_simulated_program_is_late_too() -> None:
    web = {"image": "nginx", "readinessProbe": {"httpGet": {"port": 80}, **SLOW_PULSE}}
    script = ["sh", "-c", "while true; do sleep 1; echo x > /tmp/healthy; done"]
    shell_pod = pod(
        "shell", command=script, readinessProbe={"exec": {"command": ["cat", "/tmp/healthy"]}, **SLOW_PULSE}
    )
    nginx = pod("nginx", **web)
    del nginx["spec"]["containers"][0]["command"]
    async with Cluster(plan()) as cluster:
        cluster.apply(shell_pod, nginx)
        await cluster.run_for("40s")
        assert ready(cluster, "shell") and ready(cluster, "nginx")
        cluster.do.workload(late="2500ms", for_="1m")
        await cluster.run_for("50s")
        assert not ready(cluster, "shell") and not ready(cluster, "nginx")
        await cluster.run_for("50s")
        assert ready(cluster, "shell") and ready(cluster, "nginx")


async def test_hook_of_a_late_container_takes_longer() -> None:
    hook = {"lifecycle": {"preStop": {"exec": {"command": ["sleep", "5"]}}}, "image": "example.com/app:1"}
    gone: list[int] = []
    async with Cluster(plan()) as cluster:
        cluster.apply(pod(**hook, command=["/app"]))
        await cluster.run_for("20s")
        cluster.do.workload(late="10s")
        cluster.observe(lambda change: gone.append(change.at_us) if change.deleted else None, ["pods"])
        began_us = cluster.kernel.now_us
        cluster.request("delete", "pods", "default", "web")
        await cluster.run_for("30s")
        assert 15 * SECOND <= gone[0] - began_us <= 17 * SECOND + 500 * MS


@pytest.mark.parametrize("late", ["soon", "-1s"])
def test_late_is_a_duration(late: str) -> None:
    head = {"apiVersion": "orrery.dev/v1", "kind": "Scenario", "metadata": {"name": "s"}}
    step = {"at": "1m", "workload": {"late": late}}
    spec = {"cluster": {"nodes": [{"count": 1}]}, "timeline": [step]}
    with pytest.raises(InputError, match="duration"):
        compile_plan(Document("", {**head, "spec": spec}), Path())
