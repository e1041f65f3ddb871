"""Calls of the container runtime that take their time, and how long they are waited for.

Turns what a call takes, on a slow disk or beside a runtime that falls silent, into its answer or its giving up.

Mirrors  pkg/kubelet/cri/remote/remote_runtime.go: RunPodSandbox, CreateContainer, StopContainer (v1.25).
Differs  a call that is given up has done nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol

from actors.node.runtime.ports import Host

SANDBOX_PATIENCE = 2  # remote_runtime.go: RunPodSandbox waits twice as long
LATE = "context deadline exceeded"
GIVEN_UP = f"rpc error: code = DeadlineExceeded desc = {LATE}"


class Calling(Protocol):
    """A pod worker as seen by a call.  limit_us: when the call is given up, -1 without a call."""

    limit_us: int

    @property
    def agent(self) -> Host:
        """The agent that runs the worker."""
        ...


def call(worker: Calling, took_us: int, patience: int = 1, grace_us: int = 0) -> Generator[int, None, bool]:
    """A call that a quick runtime answers after so long (below zero: before now); False: it is given up.

    grace_us: what the runtime itself is told to wait for
    """
    agent = worker.agent
    limit_us = patience * agent.options.runtime_request_timeout_us + grace_us
    worker.limit_us = agent.now_us + limit_us
    yield max(0, min(took_us + (agent.machine.runtime_delay_us or 0), limit_us))
    answered = agent.now_us < worker.limit_us
    worker.limit_us = -1
    return answered
