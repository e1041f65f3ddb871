"""The terms that the agent's folders share about pod workers: states and pieces of work.

A worker runs one piece of work at a time: a generator that yields how many microseconds to wait.
Code below `pods` takes part in such work (it pulls an image, reads a ConfigMap) or ends a pod,
without knowledge of the worker's class: it sees a worker as a `NodePod` (`runtime.ports`).

Mirrors  pkg/kubelet/pod_workers.go: syncPod, terminatingPod, terminatedPod, finished (v1.25).
"""

from __future__ import annotations

from collections.abc import Generator

Work = Generator[int, None, str]
WAIT = -1  # what work yields when a callback will continue it by `proceed`
Reason = tuple[str, str]  # why a container does not start: reason and message of its waiting state

# The states of a worker, in the only order in which they follow each other.
SYNC, TERMINATING, TERMINATED, FINISHED = "sync", "terminating", "terminated", "finished"

Override = tuple[str, str, str]  # phase, reason and message for the status of a pod that is ended
