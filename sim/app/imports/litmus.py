"""Experiments of Litmus (ChaosEngine, ChaosExperiment) as steps.

Mirrors  litmuschaos chaos-charts faults/kubernetes/*/{engine,fault}.yaml (names of the experiments
         and of their environment variables).
Differs  a target node is one of the nodes of the scenario, the first by name, or a drawn one if the
         experiment names none; the pods are those of a Deployment that takes their place, and
         TARGET_PODS, which names some of them, has no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from sim.app.imports.dump import split
from sim.app.imports.experiments import NETWORK, Experiments, NoCounterpart, selector_of, step_name
from sim.app.imports.parts import START, Imported, Value
from sim.errors import InputError
from sim.ident import LITMUS_GROUPS
from sim.units import SECOND, format_duration, parse_duration_us

_NODE_MEBIBYTES = 32 << 10  # of the nodes that take the place of the cluster's
_NODES = "target nodes are the first nodes by name, or drawn if none is named"
_LASTS_S = 60


class _Given(NamedTuple):
    """One experiment: its name, its variables, and the pods that it selects."""

    name: str
    env: Mapping[str, str]
    namespace: str
    labels: Mapping[str, str]

    @property
    def lasts_s(self) -> int:
        return int(self.env.get("TOTAL_CHAOS_DURATION") or _LASTS_S)

    @property
    def lasts(self) -> str:
        return f"{self.lasts_s}s"

    @property
    def until(self) -> str:
        return format_duration(parse_duration_us(START) + self.lasts_s * SECOND)

    def number(self, name: str, otherwise: float) -> float:
        """The number of a variable.  Raises NoCounterpart."""
        text = self.env.get(name) or ""
        try:
            return float(text) if text else otherwise
        except ValueError:
            raise NoCounterpart(f"{name}={text}") from None


def import_litmus(documents: Sequence[Any], shown: str) -> Imported:
    """The experiments of the documents.  Raises InputError if there are none."""
    ours, others = split(documents, LITMUS_GROUPS)
    if not ours:
        raise InputError("holds no experiment of Litmus", shown)
    into = Experiments()
    for obj in ours:
        for given in _experiments(obj):
            into.convert(f"{obj['kind']} {given.name}", partial(_experiment, into, given))
        if obj["kind"] not in ("ChaosEngine", "ChaosExperiment"):
            into.note(f"{obj['kind']} {obj['metadata']['name']} has no counterpart")
    if others:
        into.note(f"left out {len(others)} documents that are no experiments of Litmus")
    return into.checked()


def _experiments(obj: Value) -> list[_Given]:
    spec = obj.get("spec") or {}
    if obj["kind"] == "ChaosExperiment":
        env = _env((spec.get("definition") or {}).get("env"))
        return [_Given(obj["metadata"]["name"], env, "", _labels(""))]
    if obj["kind"] != "ChaosEngine":
        return []
    info = spec.get("appinfo") or {}
    found = []
    for each in spec.get("experiments") or ():
        env = _env(((each.get("spec") or {}).get("components") or {}).get("env"))
        namespace = info.get("appns") or obj["metadata"].get("namespace", "")
        found.append(_Given(str(each.get("name", "")), env, namespace, _labels(info.get("applabel") or "")))
    return found


def _env(given: Any) -> dict[str, str]:
    return {str(each.get("name")): str(each.get("value", "")) for each in given or ()}


def _labels(text: str) -> dict[str, str]:
    """Labels as Litmus writes them, app=web,tier=front; without any, app=target."""
    pairs = [part.partition("=") for part in text.split(",") if "=" in part]
    return {key.strip(): value.strip() for key, _, value in pairs} or {"app": "target"}


def _experiment(into: Experiments, given: _Given) -> None:
    convert = _EXPERIMENTS.get(given.name)
    if convert is None:
        raise NoCounterpart("this experiment")
    convert(into, given)


def _pods(into: Experiments, given: _Given) -> Value:
    """The pods of an experiment, of which some are drawn: one at least, as Litmus does."""
    into.stand_in(given.namespace, given.labels)
    share = given.number("PODS_AFFECTED_PERC", 0)
    pick: int | str = f"{min(share, 100):g}%" if share >= 1 else 1
    return {
        **({"namespace": given.namespace} if given.namespace else {}),
        "selector": selector_of(given.labels),
        "pick": pick,
    }


def _nodes(into: Experiments, given: _Given) -> Value:
    into.note(_NODES)
    named = given.env.get("TARGET_NODE") or given.env.get("TARGET_NODES") or ""
    return {"count": len(named.split(","))} if named else {"pick": 1}


def _pod_delete(into: Experiments, given: _Given) -> None:
    action: Value = {"resource": "pods", **_pods(into, given)}
    if given.env.get("FORCE", "true").lower() == "true":
        action["gracePeriodSeconds"] = 0
    every = f"{given.number('CHAOS_INTERVAL', 10):g}s"
    into.add(step_name(given.name), {"delete": action}, every=every, until=given.until)


def _container_kill(into: Experiments, given: _Given) -> None:
    action = {"workload": {**_pods(into, given), "exitAfter": "0s", "exitCode": 137}}
    every = f"{given.number('CHAOS_INTERVAL', 10):g}s"
    into.add(step_name(given.name), action, "50ms", every=every, until=given.until)


def _node_drain(into: Experiments, given: _Given) -> None:
    nodes = {"count": 1}
    into.note(_NODES)
    into.add(step_name(given.name), {"drain": {"nodes": nodes}})
    into.found.steps.append({"at": given.until, "name": "drain-ends", "uncordon": {"nodes": nodes}})
    into.lasts_until(parse_duration_us(given.until))


def _node_taint(into: Experiments, given: _Given) -> None:
    taints = [_taint(text.strip()) for text in given.env.get("TAINTS", "").split(",") if text.strip()]
    if not taints:
        raise NoCounterpart("a taint is needed in TAINTS")
    into.add(step_name(given.name), {"taint": {"nodes": _nodes(into, given), "taints": taints}}, given.lasts)


def _taint(text: str) -> Value:
    """A taint as key=value:effect or key:effect."""
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return {"key": key, **({"value": value} if value else {}), "effect": effect}


def _fail(how: str) -> Callable[[Experiments, _Given], None]:
    def convert(into: Experiments, given: _Given) -> None:
        into.add(step_name(given.name), {"fail": {"nodes": _nodes(into, given), "how": how}}, given.lasts)

    return convert


def _node_restart(into: Experiments, given: _Given) -> None:
    into.add(step_name(given.name), {"reboot": {"nodes": _nodes(into, given)}})


def _node_memory(into: Experiments, given: _Given) -> None:
    share = given.number("MEMORY_CONSUMPTION_PERCENTAGE", 0) / 100
    used = given.number("MEMORY_CONSUMPTION_MEBIBYTES", 0) or share * _NODE_MEBIBYTES
    if not used:
        raise NoCounterpart("an amount is needed in MEMORY_CONSUMPTION_MEBIBYTES or …_PERCENTAGE")
    available = max(0, round(_NODE_MEBIBYTES - used))
    action = {"nodes": _nodes(into, given), "resource": "memory", "available": f"{available}Mi"}
    into.note(f"{given.name}: the amount that stays available is that of a node with 32Gi")
    into.add(step_name(given.name), {"pressure": action}, given.lasts)


def _pod_memory(into: Experiments, given: _Given) -> None:
    amount = f"{given.number('MEMORY_CONSUMPTION', 500):g}Mi"
    into.add(step_name(given.name), {"workload": {**_pods(into, given), "memory": amount}}, given.lasts)


def _pod_cpu(into: Experiments, given: _Given) -> None:
    cores = given.number("CPU_CORES", 1) or 1
    into.found.metrics = True
    into.add(step_name(given.name), {"workload": {**_pods(into, given), "cpu": f"{cores:g}"}}, given.lasts)


def _network(field: str, variable: str, otherwise: float) -> Callable[[Experiments, _Given], None]:
    def convert(into: Experiments, given: _Given) -> None:
        into.note(NETWORK)
        amount = given.number(variable, otherwise)
        value = f"{amount:g}ms" if field == "latency" else min(amount / 100, 0.99)
        action = {"between": ["nodes", "apiserver"], field: value}
        into.add(step_name(given.name), {"network": action}, given.lasts)

    return convert


def _partition(into: Experiments, given: _Given) -> None:
    into.note(NETWORK)
    into.add(step_name(given.name), {"partition": {"between": ["nodes", "apiserver"]}}, given.lasts)


def _autoscaler(into: Experiments, given: _Given) -> None:
    name = into.stand_in(given.namespace, given.labels)
    place = {"namespace": given.namespace} if given.namespace else {}
    replicas = int(given.number("REPLICA_COUNT", 5))
    action = {"resource": "deployments", **place, "name": name, "replicas": replicas}
    into.add(step_name(given.name), {"scale": action})


_EXPERIMENTS: Mapping[str, Callable[[Experiments, _Given], None]] = {
    "pod-delete": _pod_delete,
    "container-kill": _container_kill,
    "node-drain": _node_drain,
    "node-taint": _node_taint,
    "kubelet-service-kill": _fail("agent-crash"),
    "docker-service-kill": _fail("runtime-failure"),
    "node-poweroff": _fail("power-loss"),
    "node-restart": _node_restart,
    "node-memory-hog": _node_memory,
    "pod-memory-hog": _pod_memory,
    "pod-memory-hog-exec": _pod_memory,
    "pod-cpu-hog": _pod_cpu,
    "pod-cpu-hog-exec": _pod_cpu,
    "pod-network-latency": _network("latency", "NETWORK_LATENCY", 2000),
    "pod-network-loss": _network("loss", "NETWORK_PACKET_LOSS_PERCENTAGE", 100),
    "pod-network-duplication": _network("duplication", "NETWORK_PACKET_DUPLICATION_PERCENTAGE", 100),
    "pod-network-partition": _partition,
    "pod-autoscaler": _autoscaler,
}
