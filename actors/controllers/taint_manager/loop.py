"""Evict pods from nodes with NoExecute taints, each when its tolerations run out.

Turns changes of nodes' taints and of pods' places and tolerations into timers, and their end into
DELETEs.

Holds: at most one timer per pod; a pod deleted once is not deleted again until its object is gone;
timers live in memory only, so that a new leader starts every one of them anew.  With the gate
PodDisruptionConditions a pod's status says why first.

Mirrors  kubernetes v1.25 pkg/controller/nodelifecycle/scheduler/taint_manager.go, timed_workers.go.
Differs  changes are taken at the instant they are seen, without workers: upstream's eight never
         wait for anything but each other; a second change at the very instant that armed a timer
         keeps the timer.
Quirk:   a node object's removal leaves its pods' timers running, until one of its name comes
         without such taints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from actors.controllers.shared.shell import Env
from actors.controllers.taint_manager.decide import UNTOLERATED, Taint, no_execute_taints, stay_us
from sim.api.kinds.core.pod.disruption_target import Disruption, disrupted, status_patch
from sim.api.types import Obj, Reply
from sim.client.rest.pod_status import status_request
from sim.options.gates import POD_DISRUPTION, enabled
from sim.units import MS, format_time

if TYPE_CHECKING:
    from sim.client import Client
    from sim.kernel import Timer

DELETE_TRIES = 5  # retries, 10 ms apart
DELETE_PAUSE_US = 10 * MS
COMPONENT = "taint-controller"

_SENT = None  # in `_work`: deleted already, or being deleted


class TaintManager:
    """Timers of pods on tainted nodes.  Hook `node_changed` and `pod_changed` to the informers."""

    def __init__(self, env: Env, client: Client, pods_of: Callable[[str], list[Obj]]) -> None:
        self._env = env
        self._client = client
        self._recorder = env.recorder(COMPONENT, client)
        self._pods_of = pods_of
        self._tainted: dict[str, list[Taint]] = {}
        self._by: dict[str, int] = {}  # the record by which it is seen so
        self._work: dict[str, Timer | None] = {}
        self._tells_why = enabled(env.options.feature_gates, POD_DISRUPTION)

    # --- what the informers say -------------------------------------------------------------------

    def node_changed(self, old: Obj | None, new: Obj | None) -> None:
        before = old["spec"].get("taints") if old is not None else None
        after = new["spec"].get("taints") if new is not None else None
        if before is after and old is not None and new is not None:
            return
        node = new if new is not None else old
        assert node is not None
        name = node["metadata"]["name"]
        if new is None:
            self._tainted.pop(name, None)
            self._by.pop(name, None)
            return
        taints = no_execute_taints(after or ())
        if old is not None and no_execute_taints(before or ()) == taints:
            return
        if taints:
            self._tainted[name], self._by[name] = taints, self._env.ctx.kernel.cause
            for pod in self._pods_of(name):
                self._judge(pod, taints)
        elif self._tainted.pop(name, None) is not None or (old is None and self._work):
            # Of one that comes anew too: its namesake's timers still run.
            for pod in self._pods_of(name):
                self._cancel(pod)

    def pod_changed(self, old: Obj | None, new: Obj | None) -> None:
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
        # Of a pod and its node that are listed one after the other, in either order, what came last
        # is why it is to go.
        kernel = self._env.ctx.kernel
        seen = kernel.cause
        kernel.cause = max(seen, self._by[spec["nodeName"]])
        self._judge(new, taints)
        kernel.cause = seen

    # --- timers -----------------------------------------------------------------------------------

    def _judge(self, pod: Obj, taints: list[Taint]) -> None:
        wait_us = stay_us(taints, pod["spec"].get("tolerations") or ())
        key = _key(pod)
        if wait_us is None:
            self._cancel(pod)
        elif wait_us == UNTOLERATED:
            self._cancel(pod)
            self._evict(pod)
        elif key in self._work:
            return  # a timer that runs is kept, even if the new stay is shorter
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
        ctx.kernel.cause = cause

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

        def tell_why(reply: Reply) -> None:
            if not reply.ok:
                failed()
                return
            told = disrupted(reply.obj, Disruption.TAINT, format_time(self._env.ctx.wall_us()))
            patch = status_patch(reply.obj, told)
            if patch is None:
                delete()
            else:
                request = status_request(client, reply.obj, patch)
                client.call(request, lambda patched: delete() if patched.ok else failed())

        if self._tells_why:
            client.call(client.request("get", "pods", meta["namespace"], meta["name"]), tell_why)
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
