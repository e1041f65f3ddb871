"""The proxies of a cluster's nodes.

A machine that boots starts its proxy, and one that loses its power loses the proxy and its rules.

Holds: without the option `kubeProxy` there is no process, no event and no draw.
"""

from __future__ import annotations

from functools import partial

from actors.node.node import Node
from actors.node.programs.network.services import Route
from actors.node.proxy.process import Written, proxy_main
from actors.node.proxy.rules import ServiceKey
from sim.app.parts.boots import Boots
from sim.app.parts.ports import BuiltCluster
from sim.options.node.proxy import proxy_of
from sim.units import SECOND

RESTART_US = 10 * SECOND  # the back-off of a container that has crashed once


class Proxies:
    """The proxies.  written: the rules of each node"""

    def __init__(self, cluster: BuiltCluster) -> None:
        self._cluster = cluster
        self.written: dict[str, Written] = {}
        cluster.pod_network.written = self.written  # for programs of pods

    def add(self, node: Node, boots: Boots) -> None:
        """Add the proxy of a node that was added."""
        cluster, options, name = self._cluster, self._cluster.plan.kube_proxy, node.name
        if options is None:
            return
        if not self.written:
            cluster.machine_watch.watch(self._machine)
        if name in self.written:  # of an earlier machine of this name
            cluster.supervisor.remove(proxy_of(name))
        written = self.written[name] = Written()
        connect = partial(cluster.connect, host=name)
        main = proxy_main(name, cluster.scheme, cluster.names, connect, options, written)
        actor = cluster.supervisor.add(proxy_of(name), main, start=False, restart_us=RESTART_US)
        boots.add(actor, partial(self._machine, name, serves=True, at_us=0))

    def way(self, node: str, service: ServiceKey, port: str = "") -> Route | None:
        """Where the rules of a node lead a connection to a Service's address; None without a rule."""
        written = self.written.get(node)
        if written is None or written.rules is None:
            return None
        cluster = self._cluster
        zone = cluster.pod_network.zone(node)
        return written.rules.to(service, port, cluster.names, node=node, zone=zone)

    def _machine(self, name: str, serves: bool, at_us: int) -> None:
        """The machine of a node begins or ceases to serve."""
        cluster, node = self._cluster, self._cluster.nodes.get(name)
        actor = cluster.supervisor.actors.get(proxy_of(name))
        if node is None or actor is None:
            return
        if node.machine.powered:
            actor.start()
        else:
            self.written[name].rules = None
            actor.crash("power loss")
