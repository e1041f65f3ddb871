"""The terms that the agent's folders share about pod workers: states and pieces of work.

A worker runs one piece of work at a time: a generator that yields how many microseconds to wait.
Code below `pods` takes part in such work (it pulls an image, reads a ConfigMap) or ends a pod,
without knowledge of the worker's class: it sees a worker as a `NodePod` (`runtime.ports`).

Mirrors  pkg/kubelet/pod_workers.go: syncPod, terminatingPod, terminatedPod, finished (v1.25).
"""

from __future__ import annotations

from collections.abc import Generator
from enum import Enum
from typing import Literal

from sim.transitions import Transitions

Work = Generator[int, None, str]
WAIT = -1  # what work yields when a callback will continue it by `proceed`
Reason = tuple[str, str]  # why a container does not start: reason and message of its waiting state


class WorkerState(Enum):
    """The states of a pod's worker.

    TERMINATING: the end of the pod is requested, and its work has not begun
    KILLING: the work that ends the containers has begun
    TERMINATED: nothing of the pod runs
    FINISHED: its volumes are unmounted too
    """

    SYNC = "sync"
    TERMINATING = "terminating"
    KILLING = "killing"
    TERMINATED = "terminated"
    FINISHED = "finished"


SYNC, TERMINATING, KILLING, TERMINATED, FINISHED = WorkerState
ENDING = (TERMINATING, KILLING)  # upstream's state terminating: something may run
TRANSITIONS = Transitions(
    SYNC,
    {
        SYNC: {
            TERMINATING: "the pod is deleted, evicted or removed, or all its containers have ended",
            FINISHED: "the pod is refused, or had ended before this worker was made",
        },
        TERMINATING: {KILLING: "the present sync has ended"},
        KILLING: {TERMINATED: "the containers are stopped"},
        TERMINATED: {FINISHED: "the volumes are unmounted"},
        FINISHED: {},
    },
)

PodPhase = Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]
Override = tuple[
    PodPhase | Literal[""], str, str
]  # phase, reason and message for the status of a pod that is ended
