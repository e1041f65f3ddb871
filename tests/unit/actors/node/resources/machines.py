"""Machines and pods for the tests of managers."""

from __future__ import annotations

from typing import Any

from actors.node.resources.topology import Topology, mask_of, topology_of
from sim.api.types import Obj
from sim.options.machines import TopologySpec


def machine(cpus: int, sockets: int = 1, numa: int = 1, threads: int = 1, **capacity: str) -> Topology:
    amounts = {"cpu": str(cpus), "memory": "32Gi", **{k.replace("_", "-"): v for k, v in capacity.items()}}
    return topology_of(amounts, TopologySpec(sockets, numa, threads))


def cpus(text: str) -> int:
    """The set of a list such as 0-3,8."""
    ranges = [part.partition("-") for part in text.split(",") if part]
    return mask_of([n for first, _, last in ranges for n in range(int(first), int(last or first) + 1)])


def container(name: str = "c", **limits: Any) -> Obj:
    """A container with equal requests and limits; `_` stands for - in names."""
    amounts = {key.replace("_", "-"): str(value) for key, value in limits.items()}
    return {"name": name, "resources": {"requests": amounts, "limits": amounts}}


def pod(name: str, *containers: Obj, init: tuple[Obj, ...] = ()) -> Obj:
    return {
        "metadata": {"name": name, "uid": name, "namespace": "default"},
        "spec": {"containers": list(containers), "initContainers": list(init)},
    }


def simple(name: str, cpu: int | str = 1, memory: str = "1Gi") -> Obj:
    """A Guaranteed pod of one container."""
    return pod(name, container(cpu=cpu, memory=memory))
