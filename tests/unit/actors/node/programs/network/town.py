"""A cluster of pods that only have sockets, for tests of the network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from actors.node.programs.commands import COMMANDS
from actors.node.programs.ends import Output
from actors.node.programs.files.layout import image_layer
from actors.node.programs.files.tree import Tree
from actors.node.programs.network.fabric import Fabric, Network, Wakes
from actors.node.programs.network.forwarded import Ask
from actors.node.programs.network.sockets import Address
from actors.node.programs.process import Identity, Process
from actors.node.programs.surroundings import Surroundings
from actors.node.programs.table import Table
from actors.node.programs.waits import Main, Wait
from sim.api.types import Obj
from sim.ident import NAMES
from sim.kernel.kernel import Kernel
from sim.units import SECOND, Wall

RESOLVER = "search default.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n"
WALL_US = 1_661_212_800 * SECOND  # 2022-08-23T00:00:00Z


def service(name: str, ip: str = "10.96.0.80", namespace: str = "default", **spec: Any) -> Obj:
    """A Service with port 80 -> 8080."""
    ports = spec.pop("ports", [{"name": "http", "port": 80, "protocol": "TCP"}])
    annotations = spec.pop("annotations", {})
    labels = spec.pop("labels", {})
    return {
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations, "labels": labels},
        "spec": {"clusterIP": ip, "type": "ClusterIP", "ports": ports, **spec},
    }


def endpoint(ip: str, *, ready: bool = True, **fields: Any) -> Obj:
    return {"addresses": [ip], "conditions": {"ready": ready}, **fields}


def slice_of(*endpoints: Obj, port: int = 8080, name: str = "http", protocol: str = "TCP") -> Obj:
    ports = [{"name": name, "port": port, "protocol": protocol}]
    return {"addressType": "IPv4", "ports": ports, "endpoints": list(endpoints)}


class Town:
    """The cluster that the fabric reads.  homes: address -> node; slices: by the Service's name

    silent: addresses of programs that are not simulated; real: of those that are forwarded
    """

    names = NAMES["kubernetes"]

    def __init__(self) -> None:
        self.all: list[Obj] = []
        self.by_name: dict[str, list[Obj]] = {}
        self.homes = {"192.168.0.1": "n1", "192.168.0.2": "n2"}
        self.down: set[str] = set()
        self.woken: list[tuple[str, int]] = []
        self.silent: set[str] = set()
        self.real: dict[str, Ask] = {}
        self.dropped: set[tuple[str, str, Address, str]] = set()

    def services(self) -> Sequence[Obj]:
        return self.all

    def services_at(self, host: str, port: int, *, node_address: bool) -> Sequence[Obj]:
        return self.all

    def service(self, namespace: str, name: str) -> Obj | None:
        return next(
            (
                one
                for one in self.all
                if one["metadata"]["name"] == name and one["metadata"]["namespace"] == namespace
            ),
            None,
        )

    def slices(self, one: Obj, node: str = "") -> Sequence[Obj]:
        return self.by_name.get(one["metadata"]["name"], ())

    def has_namespace(self, name: str) -> bool:
        return name in ("default", "kube-system")

    def node_of(self, host: str) -> str:
        return self.homes.get(host, "")

    def is_pod_range(self, host: str) -> bool:
        return host.startswith("10.244.")

    def node_address(self, node: str) -> str:
        return {"n1": "192.168.0.1", "n2": "192.168.0.2"}[node]

    def zone(self, node: str) -> str:
        return f"zone-{node[-1]}"

    def is_up(self, node: str) -> bool:
        return node not in self.down

    def serves_names(self, host: str) -> bool:
        return host == "10.96.0.10"

    def passes(self, direction: str, source: str, target: Address, protocol: str) -> bool:
        return (direction, source, target, protocol) not in self.dropped

    def forward(self, host: str) -> Ask | None:
        return self.real.get(host)

    def wake(self, host: str, port: int) -> Wakes:
        self.woken.append((host, port))
        return Wakes.ANSWERS if host in self.silent else Wakes.NOTHING


class Pod:
    """A pod with programs."""

    def __init__(self, world: World, host: str, node: str) -> None:
        self.world = world
        self.network = world.fabric.network(host, node)
        world.town.homes[host] = node
        self.table = Table(self._stir, world.kernel.now_us)
        self.surroundings = Surroundings(
            "c", hostname=f"pod-{host.replace('.', '-')}", wall=lambda now_us: Wall(WALL_US + now_us),
            network=self.network,
        )  # fmt: skip
        programs = {**COMMANDS, **world.programs}
        layer = image_layer(programs, WALL_US, busybox=True, system="busybox")
        files = Tree(layer, (), lambda: WALL_US + world.kernel.now_us, busybox=True, programs=programs)
        files.write("/etc/resolv.conf", RESOLVER.encode(), mode=0o644)
        files.write("/etc/hosts", b"127.0.0.1\tlocalhost\n", mode=0o644)
        self.surroundings.files = files
        self.out, self.err = bytearray(), bytearray()

    def _stir(self) -> None:
        self.world.kernel.call_at(self.world.kernel.now_us, self._run)

    def _run(self, _: object) -> None:
        self.table.run(self.world.kernel.now_us)
        next_us = self.table.next_us
        if next_us is not None:
            self.world.kernel.call_at(max(next_us, self.world.kernel.now_us), self._run)

    def start(
        self, main: Callable[[Process], Main], *words: str, env: dict[str, str] | None = None
    ) -> Process:
        """Start a program."""
        ends: Any = {1: Output(self.out.extend), 2: Output(self.err.extend)}
        whole = {"PATH": "/bin", "HOME": "/", **(env or {})}
        return self.table.spawn(main, self.surroundings, words, whole, "/", Identity(), ends=ends)

    def run(self, *words: str, env: dict[str, str] | None = None) -> Process:
        """Start a command."""
        return self.start({**COMMANDS, **self.world.programs}[words[0].rsplit("/", 1)[-1]], *words, env=env)

    def steps(self, body: Callable[[Process], Generator[Wait, None, Any]]) -> Process:
        """Start a program that is a generator of any value."""

        def main(process: Process) -> Main:
            yield from body(process)
            return 0

        return self.start(main, "test")


class World:
    """Two nodes with pods.  programs: besides the commands"""

    def __init__(self, kernel: Kernel, programs: dict[str, Any] | None = None) -> None:
        self.kernel = kernel
        self.town = Town()
        self.programs = programs or {}
        self.fabric = Fabric(kernel, self.town)

    def pod(self, host: str, node: str = "n1") -> Pod:
        """A new pod."""
        return Pod(self, host, node)

    def networks(self) -> dict[str, Network]:
        return self.fabric.networks


@asynccontextmanager
async def world_of(programs: dict[str, Any] | None = None) -> AsyncIterator[World]:
    """A world with a kernel that runs."""
    kernel = Kernel(seed=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kernel.run)
        yield World(kernel, programs)
        kernel.stop()
        nursery.cancel_scope.cancel()
