"""Experiments of Chaos Mesh and Litmus, Stages of kwok and traces of SimKube, as steps."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from sim.app.imports.chaos_mesh import import_chaos_mesh
from sim.app.imports.documents import documents_of
from sim.app.imports.experiments import NoCounterpart, go_duration
from sim.app.imports.kwok import import_kwok
from sim.app.imports.litmus import import_litmus
from sim.app.imports.parts import Imported
from sim.app.imports.simkube import import_simkube
from sim.errors import InputError

Value = dict[str, Any]
WEB = {"labelSelectors": {"app": "web"}}


def chaos(kind: str, name: str = "one", **spec: Any) -> Imported:
    obj = {"apiVersion": "chaos-mesh.org/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    return import_chaos_mesh([obj], "f")


def steps(found: Imported) -> list[Value]:
    """The steps without their names and times."""
    return [{k: v for k, v in step.items() if k not in ("name", "at")} for step in found.steps]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("90ms", "90ms"), ("1h30m", "1h30m0s"), ("-10m100ns", "-10m0s"), ("1.5s", "1.5s"), ("300us", "300us")],
)
def test_duration_of_go_is_written_as_in_scenarios(text: str, wanted: str) -> None:
    assert go_duration(text).replace("µs", "us") == wanted


def test_duration_that_is_none_has_no_counterpart() -> None:
    with pytest.raises(NoCounterpart):
        go_duration("soon")


def test_pod_kill_deletes_the_pods_of_a_deployment_in_their_place() -> None:
    found = chaos("PodChaos", action="pod-kill", mode="all", selector=WEB, gracePeriod=3)
    assert steps(found) == [{"delete": {"resource": "pods", "selector": "app=web", "gracePeriodSeconds": 3}}]
    assert found.objects[0]["spec"]["template"]["metadata"]["labels"] == {"app": "web"}
    assert any("Deployment target-1 stands for the pods labelled app=web" in note for note in found.notes)


@pytest.mark.parametrize(
    ("mode", "pick"),
    [
        ({"mode": "one"}, {"pick": 1}),
        ({"mode": "fixed", "value": "2"}, {"pick": 2}),
        ({"mode": "fixed-percent", "value": "40"}, {"pick": "40%"}),
        ({"mode": "random-max-percent", "value": "50"}, {"pick": "0%..50%"}),
        ({"mode": "all"}, {}),
        ({}, {}),
    ],
)
def test_mode_that_selects_some_of_the_pods_becomes_a_draw(mode: Value, pick: Value) -> None:
    found = chaos("PodChaos", action="pod-kill", selector=WEB, **mode)
    delete = {"resource": "pods", "selector": "app=web", **pick, "gracePeriodSeconds": 0}
    assert steps(found) == [{"delete": delete}]
    assert not any("mode" in note for note in found.notes)


def test_mode_without_its_value_makes_no_step() -> None:
    found = chaos("PodChaos", action="pod-kill", selector=WEB, mode="fixed")
    assert found.steps == []
    assert any("the mode fixed with the value ''" in note for note in found.notes)


@pytest.mark.parametrize(
    ("kind", "spec", "effect"),
    [
        ("PodChaos", {"action": "pod-failure"}, {"ready": False}),
        ("StressChaos", {"stressors": {"memory": {"workers": 1, "size": "256MB"}}}, {"memory": "256Mi"}),
        ("PodChaos", {"action": "container-kill"}, {"exitAfter": "0s", "exitCode": 137}),
    ],
)
def test_mode_of_an_experiment_on_programs_becomes_a_draw(kind: str, spec: Value, effect: Value) -> None:
    found = chaos(kind, **spec, mode="fixed-percent", value="40", selector=WEB, duration="30s")
    assert found.steps[0]["workload"] == {"selector": "app=web", "pick": "40%", **effect}
    assert not any("mode" in note for note in found.notes)


def test_pod_delete_of_litmus_takes_its_share_of_the_pods() -> None:
    delete = steps(engine("pod-delete", PODS_AFFECTED_PERC="50"))[0]["delete"]
    assert delete["pick"] == "50%"


def test_schedule_repeats_the_step_of_its_experiment() -> None:
    inner = {"action": "pod-kill", "mode": "all", "selector": WEB}
    found = chaos("Schedule", schedule="@every 5s", type="PodChaos", podChaos=inner)
    assert [step["every"] for step in found.steps] == ["5s"]
    assert chaos("Schedule", schedule="5 4 * * *", type="PodChaos", podChaos=inner).steps == []


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ({"action": "delay", "delay": {"latency": "90ms", "jitter": "30ms"}}, {"latency": "60ms..120ms"}),
        ({"action": "loss", "loss": {"loss": "25"}}, {"loss": 0.25}),
        ({"action": "duplicate", "duplicate": {"duplicate": "40"}}, {"duplication": 0.4}),
    ],
)
def test_network_chaos_acts_between_nodes_and_api_servers(spec: Value, wanted: Value) -> None:
    found = chaos("NetworkChaos", mode="all", selector=WEB, duration="10s", **spec)
    assert steps(found) == [{"network": {"between": ["nodes", "apiserver"], **wanted}, "for": "10s"}]
    assert any("traffic between pods is not modelled" in note for note in found.notes)


def test_partition_and_clock_and_stress_have_steps() -> None:
    cut = chaos("NetworkChaos", action="partition", mode="all", selector=WEB, direction="both", duration="1m")
    assert steps(cut) == [{"partition": {"between": ["nodes", "apiserver"]}, "for": "1m0s"}]
    shift = chaos("TimeChaos", mode="all", selector=WEB, timeOffset="-10m", duration="30s")
    assert steps(shift) == [{"clock": {"actor": "nodes", "offset": "-10m0s"}, "for": "30s"}]
    stress = chaos(
        "StressChaos", mode="all", selector=WEB, stressors={"memory": {"size": "256MB"}}, duration="1m"
    )
    assert steps(stress) == [{"workload": {"selector": "app=web", "memory": "256Mi"}, "for": "1m0s"}]


def test_fault_without_counterpart_becomes_a_note_and_no_step() -> None:
    found = chaos("IOChaos", "disk", action="latency")
    assert found.steps == []
    assert "IOChaos disk has no counterpart: this kind of fault" in found.notes


def engine(name: str, **env: str) -> Imported:
    given = [{"name": key, "value": value} for key, value in env.items()]
    experiment = {"name": name, "spec": {"components": {"env": given}}}
    info = {"appns": "shop", "applabel": "app=web", "appkind": "deployment"}
    obj = {
        "apiVersion": "litmuschaos.io/v1alpha1", "kind": "ChaosEngine", "metadata": {"name": "engine"},
        "spec": {"appinfo": info, "experiments": [experiment]},
    }  # fmt: skip
    return import_litmus([obj], "f")


def test_pod_delete_of_litmus_repeats_within_its_duration() -> None:
    found = engine("pod-delete", TOTAL_CHAOS_DURATION="30", CHAOS_INTERVAL="10", FORCE="false")
    delete = {"resource": "pods", "namespace": "shop", "selector": "app=web", "pick": 1}
    assert steps(found) == [{"every": "10s", "until": "2m30s", "delete": delete}]


@pytest.mark.parametrize(
    ("name", "env", "action"),
    [
        ("kubelet-service-kill", {}, {"fail": {"nodes": {"pick": 1}, "how": "agent-crash"}}),
        ("node-poweroff", {"TARGET_NODE": "node02"}, {"fail": {"nodes": {"count": 1}, "how": "power-loss"}}),
        (
            "node-taint",
            {"TAINTS": "a.example/chaos=true:NoSchedule"},
            {"taint": {"nodes": {"pick": 1}, "taints": [{"key": "a.example/chaos", "value": "true", "effect": "NoSchedule"}]}},
        ),
        (
            "node-memory-hog",
            {"MEMORY_CONSUMPTION_MEBIBYTES": "32000"},
            {"pressure": {"nodes": {"pick": 1}, "resource": "memory", "available": "768Mi"}},
        ),
        ("pod-network-latency", {"NETWORK_LATENCY": "250"}, {"network": {"between": ["nodes", "apiserver"], "latency": "250ms"}}),
    ],
)  # fmt: skip
def test_experiment_of_litmus_lasts_for_its_duration(name: str, env: dict[str, str], action: Value) -> None:
    assert steps(engine(name, TOTAL_CHAOS_DURATION="90", **env)) == [{**action, "for": "90s"}]


def test_node_drain_ends_by_opening_the_nodes() -> None:
    found = engine("node-drain", TOTAL_CHAOS_DURATION="60")
    assert [(step["at"], [*step][-1]) for step in found.steps] == [("2m", "drain"), ("3m0s", "uncordon")]


def test_experiment_of_litmus_without_counterpart_is_noted() -> None:
    found = engine("pod-dns-error")
    assert (
        found.steps == [] and "ChaosEngine pod-dns-error has no counterpart: this experiment" in found.notes
    )


def stage(name: str, kind: str, template: str, **spec: Any) -> Value:
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name},
        "spec": {"resourceRef": {"apiGroup": "v1", "kind": kind}, "next": {"statusTemplate": template}, **spec},
    }  # fmt: skip


def test_stage_that_starts_pods_delays_the_start_of_containers() -> None:
    found = import_kwok([stage("ready", "Pod", "phase: Running", delay={"durationMilliseconds": 2000})], "f")
    assert [group["runtime"] for group in found.nodes] == [{"start": "2s"}]
    assert found.steps == []


def test_stage_that_fails_labelled_pods_ends_their_programs() -> None:
    expression = {"key": '.metadata.labels["fail.example/now"]', "operator": "In", "values": ["true"]}
    failed = stage("failed", "Pod", "a: b\nphase: Failed\n", selector={"matchExpressions": [expression]}, delay={"durationMilliseconds": 5000})  # fmt: skip
    workload = {"selector": "fail.example/now=true", "exitAfter": "5s", "exitCode": 1}
    assert steps(import_kwok([failed], "f")) == [{"workload": workload}]


def test_stage_of_a_node_that_is_not_ready_fails_its_runtime() -> None:
    labels = {"broken": "true"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "kwok-0", "labels": labels}}
    node["status"] = {"capacity": {"cpu": "32", "memory": "256Gi"}}
    broken = stage("node-not-ready", "Node", 'status: "False"', selector={"matchLabels": labels}, delay={"durationMilliseconds": 1000})  # fmt: skip
    found = import_kwok([node, broken], "f")
    assert steps(found) == [{"fail": {"nodes": {"labels": labels}, "how": "runtime-failure"}}]
    assert found.steps[0]["at"] == "2m1s"


def test_stage_for_which_agents_do_the_work_is_noted_once() -> None:
    deletes = {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": "d"}, "spec": {"resourceRef": {"kind": "Pod"}, "next": {"delete": True}}}  # fmt: skip
    heartbeat = stage("node-heartbeat", "Node", 'status: "True"')
    notes = import_kwok([deletes, heartbeat], "f").notes
    assert sum("node agents do that" in note for note in notes) == 1


def traced(ts: int, applied: int | None = None, deleted: str = "") -> Value:
    """An event of a trace: a Deployment with so many replicas, or a deletion."""
    head = {"apiVersion": "apps/v1", "kind": "Deployment"}
    spec = {
        "replicas": applied, "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }  # fmt: skip
    metadata = {"name": "web", "namespace": "default"}
    return {
        "ts": ts,
        "applied_objs": [{**head, "metadata": metadata, "spec": spec}] if applied is not None else [],
        "deleted_objs": [{**head, "metadata": {**metadata, "name": deleted}, "spec": {}}] if deleted else [],
    }


TRACE = {
    "version": 2, "config": {"trackedObjects": {}}, "index": {},
    "events": [traced(100, 2, "never-seen"), traced(160, 5), traced(220, deleted="web")],
}  # fmt: skip


def test_trace_of_simkube_becomes_objects_and_timed_steps() -> None:
    found = import_simkube([TRACE], "f")
    assert [each["spec"]["replicas"] for each in found.objects] == [2]
    assert [step["at"] for step in found.steps] == ["3m0s", "4m0s"]
    assert found.steps[0]["apply"]["objects"][0]["spec"]["replicas"] == 5
    assert found.steps[1]["delete"] == {"resource": "deployments", "namespace": "default", "name": "web"}
    assert "the deletion of Deployment never-seen is left out: it is never applied" in found.notes


def test_first_version_and_binary_form_of_a_trace_are_read() -> None:
    assert len(import_simkube([[TRACE["config"], TRACE["events"]]], "f").steps) == 2
    assert documents_of(msgpack.packb(TRACE), "f") == [TRACE]


@pytest.mark.parametrize("convert", [import_chaos_mesh, import_litmus, import_kwok, import_simkube])
def test_file_of_another_format_is_refused(convert: Any) -> None:
    with pytest.raises(InputError):
        convert(["text"], "f")
