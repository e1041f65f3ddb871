"""The agent's answer to a request for a log.

Turns names and options into a reader of the log, or into a code and a text; the reader
continues where it has stopped.

Mirrors  pkg/kubelet/server/server.go: getContainerLogs (v1.25).
"""

from __future__ import annotations

from actors.node.agent import NodeAgent
from actors.node.pods.worker import Worker
from actors.node.runtime.logs import NOTHING, Clock, LogReader, find_container
from sim.api.streams import LogOptions


def clock_of(agent: NodeAgent) -> Clock:
    """The time, and what the machine's clock reads at any time."""
    return agent.now_us, agent.ctx.said_us


def find_worker(agent: NodeAgent, namespace: str, name: str) -> Worker | None:
    """The worker of a pod by its name."""
    for worker in agent.workers.values():
        meta = worker.pod["metadata"]
        if meta["name"] == name and meta["namespace"] == namespace:
            return worker
    return None


def find_log(
    agent: NodeAgent, namespace: str, name: str, container: str, options: LogOptions
) -> tuple[LogReader | None, int, str]:
    """A reader of a container's log, or None; with an HTTP code and a text."""
    worker, wanted = find_worker(agent, namespace, name), (name, container, options.previous)
    pod, status = (None, {}) if worker is None else (worker.pod, worker.status)
    found, code, text = find_container(pod, agent.machine, wanted, status)
    if found is None:
        return None, code, text
    return LogReader(found, agent.machine, options, clock_of(agent)), code, ""


def read_log(
    agent: NodeAgent, namespace: str, name: str, container: str, options: LogOptions = NOTHING
) -> tuple[int, str]:
    """What a log holds now: HTTP code and text."""
    reader, code, text = find_log(agent, namespace, name, container, options)
    if reader is not None:
        text = b"".join(data for _, data in reader.read(clock_of(agent))).decode("utf-8", "ignore")
    return code, text
