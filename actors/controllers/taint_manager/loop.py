"""Taint manager: evicts pods from nodes with NoExecute taints when their tolerations expire.

Turns changes of taints, of pods' nodes and of tolerations into timers, and their end into DELETEs.

Holds: a pod has at most one timer; a pod that was deleted is not deleted again until its object is
       gone; timers are in memory only, so a new leader starts all of them from the beginning. With
       the gate PodDisruptionConditions the reason is written to the pod's status before the delete.

Mirrors  kubernetes v1.25 pkg/controller/nodelifecycle/scheduler/taint_manager.go, timed_workers.go.
Differs  changes are handled at the instant they are observed, without workers: upstream's eight
         workers only wait for each other; a second change at the instant that started a timer
         keeps the timer.
Quirk:   when a Node object is deleted, the timers of its pods keep running until a node of the same
         name without such taints is added.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.controllers.shared.shell import Env
from actors.controllers.taint_manager.decide import UNTOLERATED, Taint, no_execute_taints, stay_us
from sim.api.kinds.core.pod.disruption_target import Disruption, disrupted, status_patch
from sim.api.types import Obj, Reply
from sim.client.pod_status import status_request
from sim.kernel.causes import caused_by
from sim.options.features.gates import POD_DISRUPTION, enabled
from sim.units import MS, format_time

if TYPE_CHECKING:
    from sim.client import Client
    from sim.kernel import Timer

DELETE_TRIES = 5  # retries, 10 ms apart
DELETE_PAUSE_US = 10 * MS
COMPONENT = "taint-controller"

_SENT = None  # value in `_work`: the delete was sent, or is being sent


class TaintManager:
    """Timers of pods on tainted nodes; the owner calls `node_changed` and `pod_changed`."""

    def __init__(self, env: Env, client: Client, pods_of: Callable[[str], list[Obj]]) -> None:
        self._env = env
        self._client = client
        self._recorder = env.recorder(COMPONENT, client)
        self._pods_of = pods_of
        self._tainted: dict[str, list[Taint]] = {}
        self._taint_causes: dict[str, int] = {}  # node name -> trace record of its taints
        self._work: dict[str, Timer | None] = {}  # pod key -> timer
        self._reason_enabled = enabled(env.options.feature_gates, POD_DISRUPTION)

    # --- handlers ---------------------------------------------------------------------------------

    def node_changed(self, old: Obj | None, new: Obj | None) -> None:
        """Handle a node add (old is None), update or delete (new is None)."""
        before = old["spec"].get("taints") if old is not None else None
        after = new["spec"].get("taints") if new is not None else None
        if before is after and old is not None and new is not None:
            return
        node = new if new is not None else old
        assert node is not None
        name = node["metadata"]["name"]
        if new is None:
            self._tainted.pop(name, None)
            self._taint_causes.pop(name, None)
            return
        taints = no_execute_taints(after or ())
        if old is not None and no_execute_taints(before or ()) == taints:
            return
        if taints:
            self._tainted[name], self._taint_causes[name] = taints, self._env.ctx.kernel.cause
            for pod in self._pods_of(name):
                self._update_timer(pod, taints)
        elif self._tainted.pop(name, None) is not None or (old is None and self._work):
            # A node that is added again may have timers of its predecessor.
            for pod in self._pods_of(name):
                self._cancel(pod)

    def pod_changed(self, old: Obj | None, new: Obj | None) -> None:
        """Handle a pod add (old is None), update or delete (new is None)."""
        if new is None:
            if self._work and old is not None:
                self._cancel(old)
            return
        if not self._tainted:
            return
        spec = new["spec"]
        taints = self._tainted.get(spec.get("nodeName", ""))
        if taints is None or (old is not None and _same_stay(old["spec"], spec)):
            return
        # A pod and its node may be listed in either order: the later change is the cause.
        kernel = self._env.ctx.kernel
        with caused_by(kernel, max(kernel.cause, self._taint_causes[spec["nodeName"]])):
            self._update_timer(new, taints)

    # --- timers -----------------------------------------------------------------------------------

    def _update_timer(self, pod: Obj, taints: list[Taint]) -> None:
        wait_us = stay_us(taints, pod["spec"].get("tolerations") or ())
        key = _key(pod)
        if wait_us is None:
            self._cancel(pod)
        elif wait_us == UNTOLERATED:
            self._cancel(pod)
            self._evict(pod)
        elif key in self._work:
            return  # a running timer is kept, even if the new toleration is shorter
        elif wait_us == 0:
            self._evict(pod)
        else:
            self._work[key] = self._env.ctx.timer_us(wait_us, self._evict, pod)

    def _cancel(self, pod: Obj) -> None:
        key = _key(pod)
        if key not in self._work:
            return
        timer = self._work.pop(key)
        if timer is not None:
            timer.cancel()
            self._event(pod, "Cancelling deletion of Pod")

    def _evict(self, pod: Obj) -> None:
        self._work[_key(pod)] = _SENT
        ctx, node = self._env.ctx, pod["spec"].get("nodeName", "")
        cause = ctx.kernel.cause
        ctx.decided("evict", f"pods/{_key(pod)}", {"node": node})
        self._event(pod, "Marking for deletion Pod")
        self._delete((pod, 1))
        ctx.kernel.follow(cause)

    def _delete(self, job: tuple[Obj, int]) -> None:
        pod, attempt = job
        meta, client = pod["metadata"], self._client

        def failed() -> None:
            if attempt < DELETE_TRIES:
                self._env.ctx.call_later_us(DELETE_PAUSE_US, self._delete, (pod, attempt + 1))
            else:
                self._work.pop(_key(pod), None)

        def delete() -> None:
            request = client.request("delete", "pods", meta["namespace"], meta["name"])
            client.call(request, lambda reply: None if reply.ok else failed())

        def write_reason(reply: Reply) -> None:
            if not reply.ok:
                failed()
                return
            changed = disrupted(reply.obj, Disruption.TAINT, format_time(self._env.ctx.wall_us()))
            patch = status_patch(reply.obj, changed)
            if patch is None:
                delete()
            else:
                request = status_request(client, reply.obj, patch)
                client.call(request, lambda patched: delete() if patched.ok else failed())

        if self._reason_enabled:
            client.call(client.request("get", "pods", meta["namespace"], meta["name"]), write_reason)
        else:
            delete()

    def _event(self, pod: Obj, what: str) -> None:
        meta = pod["metadata"]
        ref = {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"]}
        self._recorder.event(ref, "Normal", "TaintManagerEviction", f"{what} {_key(pod)}")


def _key(pod: Obj) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _same_stay(old: Obj, new: Obj) -> bool:
    return old is new or (
        old.get("nodeName") == new.get("nodeName") and old.get("tolerations") == new.get("tolerations")
    )
