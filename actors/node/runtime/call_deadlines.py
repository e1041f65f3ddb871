"""Calls of the container runtime that take time, and the deadlines after which they are given up.

Turns the duration of a call, on a slow disk or with a runtime that stops answering, into its answer
or its timeout.

Mirrors  pkg/kubelet/cri/remote/remote_runtime.go: RunPodSandbox, CreateContainer, StopContainer
         (v1.25).
Differs  a call that is given up has had no effect.
"""

from __future__ import annotations

from collections.abc import Generator

from actors.node.pod_work import WAIT
from actors.node.runtime.ports import Agent, NodePod
from sim.api.types import Reply

SANDBOX_TIMEOUTS = 2  # remote_runtime.go: RunPodSandbox waits twice as long
LATE = "context deadline exceeded"
GIVEN_UP = f"rpc error: code = DeadlineExceeded desc = {LATE}"


def call(
    worker: NodePod, operation: str, duration_us: int, timeouts: int = 1, grace_us: int = 0
) -> Generator[int, None, bool]:
    """A call of the runtime; False if it is given up.

    operation: its name in metrics
    duration_us: after which a quick runtime answers; may be negative
    timeouts: how many request timeouts the call may take
    grace_us: how long the runtime itself waits during the call
    """
    agent = worker.agent
    began_us, limit_us = (
        agent.ctx.kernel.now_us,
        timeouts * agent.options.runtime_request_timeout_us + grace_us,
    )
    worker.limit_us = began_us + limit_us
    yield max(0, min(duration_us + (agent.machine.runtime_delay_us or 0), limit_us))
    answered = agent.ctx.kernel.now_us < worker.limit_us
    worker.limit_us = -1
    agent.durations.called(operation, agent.ctx.kernel.now_us - began_us, answered=answered)
    return answered


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
