"""The pages of an agent's servers: paths, methods, codes, texts and figures."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from actors.node.node import Node
from actors.node.runtime.profile import ContainerBehaviour, NodeSpec, Rule, RuntimeProfile
from actors.node.server.exchange import AgentRequest, AgentResponse, Port
from actors.node.server.server import server_of
from sim.options.node.agent import parse_node_agent
from sim.units import SECOND
from tests.actor.node.fake import one_node
from tests.actor.node.test_volumes import attach, claim, drivers

GIB = 1 << 30
HUNGRY = ContainerBehaviour(
    memory_bytes=100 << 20, cpu_milli=250, layer_bytes=4096, inodes=3, processes=2, log="hello\nyou\n"
)
SPEC = NodeSpec(
    "n1",
    capacity={"cpu": "4", "memory": "8Gi", "ephemeral-storage": "100Gi", "pods": "110"},
    profile=RuntimeProfile(rules=(Rule(HUNGRY),)),
)


def ask(node: Node, path: str, method: str = "GET", **fields: Any) -> AgentResponse:
    """The answer to a request, which is given at once."""
    found: list[AgentResponse] = []
    path, _, query = path.partition("?")
    pairs = tuple((pair.partition("=")[0], pair.partition("=")[2]) for pair in query.split("&") if pair)
    server = server_of(node.machine.agent)
    server.handle(AgentRequest(method, path, pairs, **fields), found.append, lambda: None)
    return found[0]


def samples(page: AgentResponse) -> dict[str, float]:
    """The value of each series; without the times of samples."""
    lines = [line for line in page.body.decode().splitlines() if not line.startswith("#")]
    return {line.rpartition("}")[0] + "}" if "}" in line else line.split(" ")[0]: float(
        line.rpartition("} ")[2].split(" ")[0] if "}" in line else line.split(" ")[1]
    ) for line in lines}  # fmt: skip


@pytest.mark.parametrize(
    ("path", "method", "code", "body"),
    [
        ("/healthz", "GET", 200, "ok"),
        ("/healthz/syncloop", "GET", 200, "ok"),
        ("/healthz/", "GET", 404, "404 page not found\n"),
        ("/healthz?verbose", "GET", 200, "[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n"),
        ("/spec/", "GET", 404, "404 page not found\n"),
        ("/stats/container", "GET", 404, "404: Page Not Found"),
        ("/pods", "POST", 405, "405: Method Not Allowed"),
        ("/checkpoint/default/p/c", "POST", 404, "404 page not found\n"),
        ("/containerLogs/default/x/c", "GET", 404, 'pod "x" does not exist'),
        ("/containerLogs/default/p/x", "GET", 404, 'container "x" not found in pod "p"'),
        ("/containerLogs/default/p/c?tailLines=x", "GET", 400, '{"message": "Unable to decode query."}'),
        ("/containerLogs/default/p/c?tailLines=-1", "GET", 422, '{"message": "Invalid request."}'),
        ("/containerLogs/default/p/c?tail=1", "GET", 200, "you\n"),
        ("/containerLogs/default/p/c?tail=all", "GET", 200, "hello\nyou\n"),
        ("/exec/default/p/c?command=ls", "POST", 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("/exec/default/x/c?output=1", "POST", 404, "pod does not exist"),
        ("/exec/default/p/x?output=1", "POST", 500, 'container not found ("x")'),
        ("/exec/default/p/other/c?output=1", "POST", 500, 'container not found ("c")'),
        ("/exec/default/p/c?output=1", "GET", 500, "Upgrade request required\n"),
        ("/exec/default/p/c?output=1", "PUT", 405, "405: Method Not Allowed"),
        ("/portForward/default/p/other", "POST", 404, "pod not found"),
        ("/run/default/x/c?cmd=ls", "POST", 404, "pod does not exist"),
        ("/debug/flags/v", "GET", 406, "unsupported http method\n"),
        ("/logs/none", "GET", 404, "404 page not found\n"),
    ],
)
async def test_paths_have_the_codes_and_texts_of_v1_25(path: str, method: str, code: int, body: str) -> None:
    async with one_node(SPEC) as (kernel, api, node):
        api.bind("p")
        await kernel.run_until(30 * SECOND)
        found = ask(node, path, method)
        assert (found.code, found.body.decode()) == (code, body)


@pytest.mark.parametrize(
    ("options", "path", "port", "body"),
    [
        (
            {"enable-debugging-handlers": False},
            "/exec/default/p/c",
            Port.MAIN,
            "Debug endpoints are disabled.\n",
        ),
        ({}, "/runningpods/", Port.READ_ONLY, "Debug endpoints are disabled.\n"),
        ({"enable-system-log-handler": False}, "/logs/", Port.MAIN, "logs endpoint is disabled.\n"),
        (
            {"enable-profiling-handler": False},
            "/debug/pprof/",
            Port.MAIN,
            "profiling endpoint is disabled.\n",
        ),
        ({"enable-debug-flags-handler": False}, "/debug/flags/v", Port.MAIN, "flags endpoint is disabled.\n"),
    ],
)
async def test_options_of_handlers_close_their_paths(
    options: dict[str, Any], path: str, port: Port, body: str
) -> None:
    async with one_node(options=parse_node_agent(options)) as (_, _, node):
        closed = ask(node, path, port=port)
        assert (closed.code, closed.body.decode()) == (405, body)
    async with one_node() as (_, _, node):
        assert ask(node, path, "GET" if "flags" not in path else "PUT").body.decode() != body


async def test_ports_for_reads_and_for_health_have_their_paths_only() -> None:
    async with one_node(SPEC) as (_, _, node):
        assert ask(node, "/configz", port=Port.READ_ONLY).code == 404
        assert ask(node, "/pods", port=Port.READ_ONLY).code == 200
        assert ask(node, "/healthz", port=Port.HEALTHZ).body == b"ok"
        assert ask(node, "/healthz/syncloop", port=Port.HEALTHZ).code == 404
        assert ask(node, "/pods", port=Port.HEALTHZ).code == 404


async def test_lists_of_pods_show_sources_and_what_runs() -> None:
    async with one_node(SPEC) as (kernel, api, node):
        assert json.loads(ask(node, "/pods").body)["items"] is None
        api.bind("p")
        await kernel.run_until(30 * SECOND)
        (pod,) = json.loads(ask(node, "/pods").body)["items"]
        assert pod["metadata"]["annotations"]["kubernetes.io/config.source"] == "api"
        assert (pod["metadata"]["name"], "kind" in pod) == ("p", False)
        (runs,) = json.loads(ask(node, "/runningpods/").body)["items"]
        assert runs["spec"]["containers"] == [{"name": "c", "image": "img:1", "resources": {}}]


async def test_a_summary_has_the_use_of_node_pod_and_container() -> None:
    async with one_node(SPEC) as (kernel, api, node):
        api.bind(
            "p", {"containers": [{"name": "c", "image": "img:1", "resources": {"limits": {"memory": "1Gi"}}}]}
        )
        await kernel.run_until(60 * SECOND)
        found = json.loads(ask(node, "/stats/summary").body)
        (pod,) = found["pods"]
        (container,) = pod["containers"]
        began_us = next(iter(node.machine.pods.values())).containers[0].started_us
        assert container["cpu"]["usageNanoCores"] == 250_000_000
        assert container["cpu"]["usageCoreNanoSeconds"] == (60 * SECOND - began_us) * 250
        assert container["memory"]["workingSetBytes"] == 100 << 20
        assert container["memory"]["availableBytes"] == GIB - (100 << 20)
        assert container["rootfs"]["usedBytes"] == 4096
        assert pod["process_stats"] == {"process_count": 3}
        memory = found["node"]["memory"]
        assert memory["availableBytes"] == 8 * GIB - memory["workingSetBytes"]
        assert found["node"]["rlimit"]["curproc"] == 2
        short = json.loads(ask(node, "/stats/summary?only_cpu_and_memory=true", "POST").body)
        assert "fs" not in short["node"]
        assert list(short["pods"][0]["containers"][0]) == ["name", "startTime", "cpu", "memory"]


async def test_cumulative_times_do_not_fall_when_containers_and_pods_go() -> None:
    def node_time(node: Node) -> float:
        return samples(ask(node, "/metrics/resource"))["node_cpu_usage_seconds_total"]

    async with one_node(SPEC) as (kernel, api, node):
        api.bind("p")
        await kernel.run_until(60 * SECOND)
        early = node_time(node)
        node.end_container("default", "p", "c", 1)
        await kernel.run_until(90 * SECOND)
        later = node_time(node)
        assert later > early > 0
        api.delete("p", 1)
        await kernel.run_until(120 * SECOND)
        assert node_time(node) > later
        assert not node.machine.pods
        gone = node_time(node)
        await kernel.run_until(180 * SECOND)
        assert node_time(node) == gone


async def test_metrics_count_pods_containers_and_requests() -> None:
    async with one_node(SPEC) as (kernel, api, node):
        api.bind("p")
        await kernel.run_until(30 * SECOND)
        ask(node, "/pods")
        found = samples(ask(node, "/metrics"))
        assert found["kubelet_running_pods"] == 1
        assert found['kubelet_running_containers{container_state="running"}'] == 1
        assert found["kubelet_started_pods_total"] == 1
        labels = 'long_running="false",method="GET",path="pods",server_type="readwrite"'
        assert found[f"kubelet_http_requests_total{{{labels}}}"] == 1
        assert found['kubelet_node_name{node="n1"}'] == 1
        cadvisor = samples(ask(node, "/metrics/cadvisor"))
        assert any("container_memory_working_set_bytes" in name and 'pod="p"' in name for name in cadvisor)
        assert next(value for name, value in cadvisor.items() if "machine_cpu_cores" in name) == 4


async def test_log_files_are_listed_and_read_as_the_runtime_writes_them() -> None:
    async with one_node(SPEC) as (kernel, api, node):
        api.bind("p")
        await kernel.run_until(30 * SECOND)
        listed = ask(node, "/logs/").body.decode()
        assert listed == '<pre>\n<a href="containers/">containers/</a>\n<a href="pods/">pods/</a>\n</pre>\n'
        directory = next(iter(node.machine.pods.values()))
        path = f"/logs/pods/default_p_{directory.uid}/c"
        moved = ask(node, path)
        assert (moved.code, moved.location) == (301, "c/")
        text = ask(node, f"{path}/0.log").body.decode()
        assert text.splitlines()[1].partition(" ")[2] == "stdout F you"
        assert ask(node, "/logs/../etc/passwd").code == 400


async def test_syncloop_fails_once_the_runtime_has_failed_for_long() -> None:
    async with one_node(SPEC) as (kernel, _, node):
        node.fail_runtime("down")
        await kernel.run_until(200 * SECOND)
        assert ask(node, "/healthz").code == 200
        await kernel.run_until(400 * SECOND)
        failed = ask(node, "/healthz")
        assert failed.code == 500
        assert b"[-]syncloop failed: reason withheld\nhealthz check failed" in failed.body
        late = ask(node, "/healthz/syncloop").body
        assert late == b"internal server error: sync Loop took longer than expected\n"


async def test_configz_shows_the_options_by_the_fields_of_the_file() -> None:
    async with one_node(options=parse_node_agent({"max-pods": 7, "sync-frequency": "90s"})) as (_, _, node):
        shown = json.loads(ask(node, "/configz").body)["kubeletconfig"]
        assert (shown["maxPods"], shown["syncFrequency"]) == (7, "1m30s")
        assert shown["authentication"]["anonymous"]["enabled"] is True


async def test_the_level_of_the_log_is_set_by_a_put() -> None:
    said: list[str] = []
    async with one_node(SPEC) as (kernel, _, node):
        node.machine.log = lambda stream, line: said.append(line or "")
        node.crash_agent()
        node.start_agent()
        await kernel.run_until(30 * SECOND)
        log = node.machine.agent.log
        log.info(4, "kubelet/x.go:1", "quiet")
        assert not any("quiet" in line for line in said)
        ask(node, "/debug/flags/v", "PUT", body=b"4")
        log.info(4, "kubelet/x.go:1", "loud")
        assert any("loud" in line for line in said)
        wrong = ask(node, "/debug/flags/v", "PUT", body=b"x")
        text = 'failed set klog.logging.verbosity x: strconv.ParseInt: parsing "x": invalid syntax\n'
        assert (wrong.code, wrong.body.decode()) == (400, text)


@pytest.mark.parametrize("period", ["1m", "0"])
async def test_volumes_have_their_use_unless_statistics_are_off(period: str) -> None:
    spec = replace(SPEC, profile=RuntimeProfile(rules=(Rule(ContainerBehaviour(volume_bytes=4096)),)))
    options = parse_node_agent({"volume-stats-agg-period": period})
    async with one_node(spec, options, drivers=drivers()) as (kernel, api, node):
        claim(api, capacity={"storage": "1Gi"})
        held = api.objects["persistentvolumeclaims", "default", "c"]
        grown = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
        api.put("persistentvolumeclaims", {**held, "status": grown})
        mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("data", "disk")]
        pod = {
            "volumes": [
                {"name": "data", "emptyDir": {}},
                {"name": "disk", "persistentVolumeClaim": {"claimName": "c"}},
            ],
            "containers": [{"name": "c", "image": "img:1", "volumeMounts": mounts}],
        }
        api.bind("p", pod)
        await kernel.run_until(30 * SECOND)
        attach(api)
        await kernel.run_until(120 * SECOND)
        (found,) = json.loads(ask(node, "/stats/summary").body)["pods"]
        metrics = samples(ask(node, "/metrics"))
        labels = '{namespace="default",persistentvolumeclaim="c"}'
        if period == "0":
            assert "volume" not in found
            assert f"kubelet_volume_stats_capacity_bytes{labels}" not in metrics
            return
        data, disk = found["volume"]
        assert (data["name"], data["usedBytes"], data["capacityBytes"]) == ("data", 4096, 100 * GIB)
        assert disk["pvcRef"] == {"name": "c", "namespace": "default"}
        assert (disk["capacityBytes"], disk["availableBytes"]) == (GIB, GIB)
        assert metrics[f"kubelet_volume_stats_capacity_bytes{labels}"] == GIB
        assert found["ephemeral-storage"]["usedBytes"] == 4096
