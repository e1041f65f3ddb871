"""The terms that the agent's folders share about pod workers: states and pieces of work.

A worker runs one piece of work at a time: a generator that yields how many microseconds to wait.
Code below `pods` takes part in such work (it pulls an image, reads a ConfigMap) or ends a pod,
without knowledge of the worker's class: it names the members that it uses in a protocol.

Mirrors  pkg/kubelet/pod_workers.go: syncPod, terminatingPod, terminatedPod, finished (v1.25).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol

from sim.api.types import Obj

Work = Generator[int, None, str]
WAIT = -1  # what work yields when a callback will continue it by `proceed`
Reason = tuple[str, str]  # why a container does not start: reason and message of its waiting state

# The states of a worker, in the only order in which they follow each other.
SYNC, TERMINATING, TERMINATED, FINISHED = "sync", "terminating", "terminated", "finished"

Override = tuple[str, str, str]  # phase, reason and message for the status of a pod that is ended


class WorkingPod(Protocol):
    """A pod worker as seen by code that its work waits for."""

    uid: str

    @property
    def pod(self) -> Obj:
        """The newest object of the pod."""
        ...

    @property
    def work(self) -> Work | None:
        """The piece of work that runs now."""
        ...

    def proceed(self, work: Work) -> None:
        """Continue a piece of work that has yielded `WAIT`."""
        ...


class KillablePod(Protocol):
    """A pod worker as seen by code that ends pods.

    removed: True if the pod's source no longer has the pod
    """

    uid: str
    state: str
    removed: bool

    @property
    def pod(self) -> Obj:
        """The newest object of the pod."""
        ...

    def kill(self, *, grace_s: int | None = None, override: Override | None = None) -> None:
        """End the pod."""
        ...


class Killer(Protocol):
    """Ends pods and reports when they have ended (see `actors.node.pods.kill_waits`)."""

    def end(
        self,
        worker: KillablePod,
        override: Override,
        then: Callable[[bool], None],
        *,
        grace_s: int | None = None,
    ) -> None:
        """End a pod; `then` is called once, with True if the pod ended in time."""
        ...
