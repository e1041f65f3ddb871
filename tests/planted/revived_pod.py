"""A node agent that reports a terminated pod as running again after a restart.

After a reboot the agent found no containers of a pod that had ended, took it for one that had not
begun, started it, and wrote Running over its end.

Thread   https://github.com/kubernetes/kubernetes/issues/37447
Mended   v1.5: pods that have ended are not started.  That a terminal phase was not final came up
         again in https://github.com/kubernetes/kubernetes/issues/58711.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from actors.node import agent
from actors.node.agent import NodeAgent
from actors.node.pods import pod_status
from sim.api.objects import TERMINAL, phase_of
from sim.api.store import Item
from sim.api.types import Obj
from tests.planted.planting import Planted, replaced, together

_added, _phase = NodeAgent.pod_added, pod_status._phase


def _added_as_new(node_agent: NodeAgent, item: Item, pod: Obj) -> None:
    if phase_of(pod) in TERMINAL:
        node_agent.machine.remove(pod["metadata"]["uid"])
        pod = {**pod, "status": {}}
        item = Item(item.key, pod, item.rev, item.created, item.managed)
    _added(node_agent, item, pod)


def _phase_by_containers(pod: Obj, old: Obj, view: Any, init: Any, app: Any) -> tuple[Any, str, str]:
    begins = view.runtime is None or not view.runtime.containers
    return _phase({**pod, "status": {}}, {} if begins else old, view, init, app)


def _plant() -> AbstractContextManager[None]:
    return together(
        replaced(agent, "TERMINAL", ()),
        replaced(NodeAgent, "pod_added", _added_as_new),
        replaced(pod_status, "_phase", _phase_by_containers),
    )


BUG = Planted(
    name="revived_pod",
    thread="https://github.com/kubernetes/kubernetes/issues/37447",
    mended="v1.5",
    plant=_plant,
    story="""
- {at: 60s, name: restart, fail: {nodes: {}, how: agent-crash}, for: 10s}
""",
)
