"""The Services of the cluster, as the containers of a node find them in their environment.

Turns the API's Services into variables for the containers of a pod.

Holds: an agent with pods that run no program reads no Service.

Mirrors  pkg/kubelet/kubelet.go: serviceLister, serviceHasSynced; kubelet_pods.go:
         getServiceEnvVarMap (v1.25).
Differs  the Services are listed and watched from the first container on that needs them, which
         waits for the list; upstream watches them from the start and refuses a container before it
         has them.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from actors.node.pod_work import WAIT, Work
from actors.node.runtime.ports import Agent, NodePod
from actors.node.sources.api_source import Source
from actors.node.sources.environment import variables_of_services
from sim.api.store import Item
from sim.api.types import Obj
from sim.kernel.draws.dice import Dice


class Services:
    """The Services that one agent incarnation knows.

    _known: "namespace/name" -> its object; None before the first list
    _waiting: the work of pods that waits for the first list
    """

    __slots__ = ("_agent", "_known", "_source", "_waiting")

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._known: dict[str, Obj] | None = None
        self._source: Source | None = None
        self._waiting: list[tuple[NodePod, Work]] = []

    def variables(self, worker: NodePod) -> Generator[int, None, Mapping[str, str]]:
        """The variables of Services in the pod's containers."""
        while self._known is None:
            if worker.work is not None:
                self._waiting.append((worker, worker.work))
            self._start()
            if self._known is None:
                yield WAIT
        spec, meta = worker.pod["spec"], worker.pod["metadata"]
        links = spec.get("enableServiceLinks")
        return variables_of_services(
            self._known.values(), meta.get("namespace", "default"), links=links is None or bool(links),
            master=(self._agent.options.master_service_namespace, self._agent.names.apiserver_service),
        )  # fmt: skip

    def _start(self) -> None:
        if self._source is None:
            agent = self._agent
            dice = Dice(agent.ctx.stream("services").getrandbits(64))
            handlers = self._set, self._event, self._broken
            self._source = Source(agent.ctx, agent.api, "services", "", dice, handlers)
            self._source.start()

    def _set(self, items: list[Item]) -> None:
        self._known = {_key(item.obj): item.obj for item in items}
        waiting, self._waiting = self._waiting, []
        for worker, work in waiting:
            worker.proceed(work)

    def _event(self, type_: str, item: Item) -> None:
        assert self._known is not None
        key = _key(item.obj)
        if type_ == "DELETED":
            self._known.pop(key, None)
        else:
            self._known[key] = item.obj

    def _broken(self) -> None:
        """What is known stays in use until the next list."""


def _key(obj: Obj) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
