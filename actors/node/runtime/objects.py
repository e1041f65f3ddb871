"""Reads of single objects within the work of a pod."""

from __future__ import annotations

from collections.abc import Generator

from actors.node.pod_work import WAIT
from actors.node.runtime.ports import Agent, NodePod
from sim.api.types import Reply


def read_object(agent: Agent, worker: NodePod, resource: str, name: str) -> Generator[int, None, Reply]:
    """The API's answer to a get of an object in the namespace of the pod."""
    replies: list[Reply] = []
    work, namespace = worker.work, worker.pod["metadata"]["namespace"]

    def take_reply(reply: Reply) -> None:
        replies.append(reply)
        if work is not None:
            worker.proceed(work)

    agent.api.get_object(resource, namespace, name, take_reply)
    while not replies:
        yield WAIT
    return replies[0]
