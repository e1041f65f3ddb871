"""Binds the volumes of a pod to the node that was chosen for it, before the pod itself is bound.

Turns a `Choice` into updates: each chosen volume is reserved for its claim, and each claim without
a volume gets the annotation of the selected node. Then the binder waits until the controller has
bound all of them. A failure takes back what was only assumed.

Holds: the updates are sent one after the other; after them the state is looked at once a second,
as the informers show it, until all claims are bound, one cannot be, or the time-out is over.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/volumebinding/binder.go: AssumePodVolumes,
         BindPodVolumes, bindAPIUpdate, checkBindings, RevertAssumedPodVolumes.
"""

from __future__ import annotations

from collections.abc import Callable

from actors.scheduler.volumes.pod_volumes import Choice
from actors.scheduler.volumes.storage import CLAIMS, VOLUMES, Storage
from sim.api.kinds.common.volumes.binding import is_fully_bound, reaches, reserved_for
from sim.api.objects import annotations_of, key_of, labels_of, name_of, revision_of, split_key, with_metadata
from sim.api.types import Obj, Reply
from sim.client import Client, Informer
from sim.dataclass import dataclass
from sim.kernel import Context
from sim.units import SECOND

POLL_US = SECOND
TIMED_OUT = "binding volumes: timed out waiting for the condition"
# Called with the error, "" if all volumes are bound.
OnBound = Callable[[str], None]


@dataclass(slots=True)
class Bindings:
    """What is bound for one pod: the newest known state of each object that was written.

    pod, node: key of the pod, and name of its node
    volumes: pairs of a volume and the key of its claim
    claims: those for which a volume has to be made
    """

    pod: str
    node: str
    volumes: list[tuple[Obj, str]]
    claims: list[Obj]


def reserve(storage: Storage, choice: Choice, pod: str, node: str) -> Bindings | None:
    """Assume the choice; None if every claim of the pod is bound already."""
    if not choice.static and not choice.provisions:
        return None
    names, volumes, claims = storage.names, [], []
    for volume, claim in choice.static:
        reserved = reserved_for(volume, claim, names)
        if reserved is not volume:
            storage.assume_volume(reserved)
        volumes.append((reserved, key_of(claim)))
    for claim in choice.provisions:
        marks = {**annotations_of(claim), names.annotation_selected_node: node}
        marked = with_metadata(claim, annotations=marks)
        storage.assume_claim(marked)
        claims.append(marked)
    return Bindings(pod, node, volumes, claims)


def unreserve(storage: Storage, bindings: Bindings) -> None:
    """Take back what was assumed."""
    for volume, _ in bindings.volumes:
        storage.restore_volume(name_of(volume))
    for claim in bindings.claims:
        storage.restore_claim(key_of(claim))


def progress(bindings: Bindings, storage: Storage, node: Obj | None, has_pod: bool) -> tuple[bool, str]:
    """Return whether all claims are bound, and the error that ends the wait, "" for none."""
    if node is None:
        return False, f'failed to get node "{bindings.node}": node "{bindings.node}" not found'
    if not has_pod:
        return False, f'pod does not exist any more: pod "{split_key(bindings.pod)[1]}" not found'
    names, labels = storage.names, labels_of(node)
    for written, key in bindings.volumes:
        name = name_of(written)
        volume, claim = storage.shown_volume(name), storage.shown_claim(key)
        if volume is None:
            return False, f'failed to check binding: could not find v1.PersistentVolume "{name}"'
        if claim is None:
            return False, f'failed to check binding: could not find v1.PersistentVolumeClaim "{key}"'
        if _is_older(volume, written):
            return False, ""
        if not reaches(volume, labels):
            return False, _no_affinity(volume, node)
        if not (volume["spec"].get("claimRef") or {}).get("uid"):
            return False, f'ClaimRef got reset for pv "{name}"'
        if not is_fully_bound(claim, names):
            return False, ""
    for written in bindings.claims:
        key, name = key_of(written), name_of(written)
        claim = storage.shown_claim(key)
        if claim is None:
            return False, f'failed to check provisioning pvc: could not find v1.PersistentVolumeClaim "{key}"'
        if _is_older(claim, written):
            return False, ""
        marks = annotations_of(claim)
        if not marks:
            return False, f'selectedNode annotation reset for PVC "{name}"'
        if marks.get(names.annotation_selected_node) != bindings.node:
            return False, f'provisioning failed for PVC "{name}"'
        if claim["spec"].get("volumeName"):
            volume = storage.shown_volume(claim["spec"]["volumeName"])
            if volume is None:  # the informer of volumes may be behind
                return False, ""
            if not reaches(volume, labels):
                return False, _no_affinity(volume, node)
        if not is_fully_bound(claim, names):
            return False, ""
    return True, ""


def _is_older(shown: Obj, written: Obj) -> bool:
    return int(revision_of(shown)) < int(revision_of(written))


def _no_affinity(volume: Obj, node: Obj) -> str:
    return (
        f'pv "{name_of(volume)}" node affinity doesn\'t match node "{name_of(node)}": '
        "no matching NodeSelectorTerms"
    )


class VolumeBinder:
    """Writes reservations and waits for their end.

    nodes, pods: informers of these resources
    """

    def __init__(
        self, ctx: Context, client: Client, storage: Storage, nodes: Informer, pods: Informer, timeout_us: int
    ) -> None:
        self._ctx, self._client, self._storage = ctx, client, storage
        self._nodes, self._pods, self._timeout_us = nodes, pods, timeout_us

    def bind(self, bindings: Bindings, then: OnBound) -> None:
        """Write all updates, wait until the claims are bound, and call `then`."""
        self._write(bindings, 0, then)

    def _write(self, bindings: Bindings, at: int, then: OnBound) -> None:
        volumes, claims = bindings.volumes, bindings.claims
        if at == len(volumes) + len(claims):
            deadline_us = self._ctx.now_us() + self._timeout_us
            self._ctx.call_later_us(POLL_US, self._poll, (bindings, deadline_us, then))
            return
        is_volume = at < len(volumes)
        obj = volumes[at][0] if is_volume else claims[at - len(volumes)]
        meta = obj["metadata"]
        resource = VOLUMES if is_volume else CLAIMS
        request = self._client.request("update", resource, meta.get("namespace", ""), meta["name"], body=obj)

        def written(reply: Reply) -> None:
            if not reply.ok:
                # What has been written already is the controller's, and stays.
                unreserve(self._storage, Bindings("", "", volumes[at:], claims[max(0, at - len(volumes)) :]))
                then(reply.message)
                return
            if is_volume:
                volumes[at] = (reply.obj, volumes[at][1])
            else:
                claims[at - len(volumes)] = reply.obj
            self._write(bindings, at + 1, then)

        self._client.call(request, written)

    def _poll(self, waiting: tuple[Bindings, int, OnBound]) -> None:
        bindings, deadline_us, then = waiting
        node, has_pod = self._nodes.get(bindings.node), self._pods.get(bindings.pod) is not None
        done, problem = progress(bindings, self._storage, node, has_pod)
        if problem:
            then(f"binding volumes: {problem}")
        elif done:
            then("")
        elif self._ctx.now_us() >= deadline_us:
            then(TIMED_OUT)
        else:
            self._ctx.call_later_us(POLL_US, self._poll, waiting)
