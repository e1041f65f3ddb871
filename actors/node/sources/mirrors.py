"""Static pods of one node and their mirrors in the API.

Turns each pod of the manifest directory (`manifests`) into a mirror pod that shows its status.  The
deletion of a mirror does not stop the static pod: the mirror is created again.

Holds: of several static pods with one name one runs at a time: the next waits until nothing is left
of it; housekeeping deletes a mirror without a static pod, but not while the static pod that it
showed is still being ended.

Mirrors  pkg/kubelet/config/common.go: applyDefaults; pod/mirror_client.go; kubelet.go: syncPod step
         7; kubelet_pods.go: HandlePodCleanups; pod_workers.go: allowNodePodStart,
         IsPodForMirrorPodTerminatingByFullName (v1.25).
Differs  the uid is a hash of the manifest as JSON; of several static pods that wait for one name,
         only the newest still exists.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from actors.node.pod_work import ENDING
from actors.node.runtime.ports import Agent, NodePod
from sim.api.scheduling import NO_EXECUTE, toleration
from sim.api.store import Item
from sim.api.types import Obj, Reply
from sim.ident import Names
from sim.units import format_micro_time

ANY = "any"
_NONE: Mapping[Any, Any] = MappingProxyType({})


def static_pod(manifest: Obj, node: str, names: Names, seen_us: int, url: str = "") -> Obj:
    """The manifest as the agent runs it: uid, name, namespace, node, hash and toleration filled in.

    seen_us: the wall clock when the agent first saw it
    url: where it comes from; "" for a file
    """
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    meta = dict(manifest.get("metadata") or {})
    uid = meta.get("uid") or hashlib.md5(f"{text}/{node}{url}".encode(), usedforsecurity=False).hexdigest()
    meta |= {
        "name": f"{meta['name']}-{node.lower()}",
        "namespace": meta.get("namespace") or names.default_namespace,
        "uid": uid,
        "annotations": {
            **(meta.get("annotations") or {}),
            names.annotation_config_hash: uid,
            names.annotation_config_source: "http" if url else "file",
            # nanoseconds
            names.annotation_config_seen: f"{format_micro_time(seen_us).removesuffix('Z')}000Z",
        },
    }
    spec = manifest["spec"]
    spec = {**spec, "nodeName": node}
    if not url:
        spec["tolerations"] = [*(spec.get("tolerations") or ()), toleration("", NO_EXECUTE)]
    return {**manifest, "metadata": meta, "spec": spec}


def mirror_of(pod: Obj, node: Obj, names: Names) -> Obj:
    """The mirror pod of a static pod, which belongs to the Node object."""
    meta = pod["metadata"]
    owner = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": node["metadata"]["name"],
        "uid": node["metadata"]["uid"],
        "controller": True,
    }
    annotations = {
        **meta["annotations"],
        names.annotation_mirror_pod: meta["annotations"][names.annotation_config_hash],
    }
    kept = {key: value for key, value in meta.items() if key != "uid"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**kept, "annotations": annotations, "ownerReferences": [owner]},
        "spec": pod["spec"],
    }


class Mirrors:
    """The static pods of one agent and what it knows of their mirrors, both by namespace and name.

    uids: of the static pods
    _static: uid of the static pod of each name
    _mirrors: the mirrors that the API holds
    _requested: mirrors with a request under way, each with the uid of one that was deleted during
        the request (ANY: of an unknown one)
    _name_owners: uid of the static pod that uses a name until its worker has finished
    _retrying: uids of pods that wait for another attempt to create their mirror
    """

    __slots__ = (
        "_agent", "_mirrors", "_name_owners", "_requested", "_retarget", "_retrying", "_static", "uids",
    )  # fmt: skip

    def __init__(self, agent: Agent, retarget: Callable[[str, str], None]) -> None:
        self._agent, self._retarget = agent, retarget
        self._static: Mapping[tuple[str, str], str] = _NONE
        self._mirrors: dict[tuple[str, str], Obj] = {}
        self._requested: dict[tuple[str, str], str] = {}
        self._name_owners: Mapping[tuple[str, str], str] = _NONE
        self._retrying: tuple[str, ...] = ()
        self.uids: tuple[str, ...] = ()

    def expect(self, pod: Obj) -> None:
        """A static pod exists from now on."""
        self._static = {**self._static, _key(pod): pod["metadata"]["uid"]}
        self.uids = tuple(self._static.values())

    def dismiss(self, uid: str) -> None:
        """A static pod no longer exists."""
        self._static = {key: held for key, held in self._static.items() if held != uid}
        self.uids = tuple(self._static.values())

    def may_start(self, worker: NodePod) -> bool:
        """True if nothing is left of another static pod of its name."""
        if worker.uid not in self.uids:
            return True
        key = _key(worker.pod)
        if key not in self._name_owners:
            self._name_owners = {**self._name_owners, key: worker.uid}
        return self._name_owners[key] == worker.uid

    def stopped(self, worker: NodePod) -> None:
        """Nothing of the pod runs any more."""
        if worker.removed and _key(worker.pod) in self._mirrors:
            self._agent.housekeep_later()

    def finished(self, worker: NodePod) -> None:
        """The pod's worker has done all of its work."""
        if self._name_owners and self._name_owners.get(key := _key(worker.pod)) == worker.uid:
            self._name_owners = {name: uid for name, uid in self._name_owners.items() if name != key}
        if worker.uid in self.uids and self._agent.pod_returns(worker.uid):
            self._agent.housekeep_later()

    def observed(self, pod: Obj | None, key: tuple[str, str]) -> None:
        """The API shows a mirror, or None if it was deleted: sync the static pod."""
        if pod is None:
            held = self._mirrors.pop(key, None)
            if held is not None and key in self._requested:
                self._requested[key] = held["metadata"]["uid"]
        else:
            self._mirrors[key] = pod
        uid = self._static.get(key)
        worker = self._agent.workers.get(uid) if uid is not None else None
        if worker is not None:
            if pod is not None:
                self._target(worker, pod)
            worker.wake()
        elif pod is not None and self._agent.sources_ready:
            self._agent.housekeep_later()

    def keep(self, items: Sequence[Item]) -> None:
        """The API was listed: of the known mirrors only the listed ones exist."""
        if self._mirrors or self._requested:
            listed = {
                (item.peek("metadata", "namespace"), item.peek("metadata", "name")): None for item in items
            }
            self._requested = {
                key: deleted_uid if key in listed else ANY for key, deleted_uid in self._requested.items()
            }
            for key in [key for key in self._mirrors if key not in listed]:
                self.observed(None, key)

    def remove_orphans(self) -> None:
        """Delete mirrors without a static pod."""
        for key in sorted(self._mirrors):
            if key not in self._static and not self._is_ending(key):
                self._delete(self._mirrors[key])

    def _is_ending(self, key: tuple[str, str]) -> bool:
        """True if something of the static pod that had this name may run."""
        worker = self._agent.workers.get(self._name_owners.get(key, ""))
        return worker is not None and worker.state in ENDING

    def _target(self, worker: NodePod, pod: Obj) -> None:
        self._retarget(worker.uid, pod["metadata"]["uid"])

    def sync(self, worker: NodePod) -> None:
        """Create or replace the mirror of a static pod."""
        agent, meta = self._agent, worker.pod["metadata"]
        key = meta["namespace"], meta["name"]
        if key in self._requested:
            return
        mirror = self._mirrors.get(key)
        if mirror is None:
            self._create(worker, key)
            return
        held = mirror["metadata"]
        held_hash = (held.get("annotations") or {}).get(agent.names.annotation_mirror_pod)
        wanted_hash = meta["annotations"][agent.names.annotation_config_hash]
        if held_hash != wanted_hash or held.get("deletionTimestamp"):
            self._requested[key] = ""
            agent.api.delete_pod(*key, held["uid"], lambda reply: self._deleted(worker, key, reply))

    def _deleted(self, worker: NodePod, key: tuple[str, str], reply: Reply) -> None:
        """Create a new mirror at once in place of one that this request has deleted."""
        self._requested.pop(key, None)
        if reply.ok:
            self._create(worker, key)
        else:
            self._retry_later(worker)

    def _create(self, worker: NodePod, key: tuple[str, str]) -> None:
        agent = self._agent
        node = agent.node
        if node and not node["metadata"].get("deletionTimestamp"):
            self._requested[key] = ""
            agent.api.create_pod(
                mirror_of(worker.pod, node, agent.names), lambda reply: self._created(worker, key, reply)
            )
        elif agent.registered:
            self._retry_later(worker)

    def _created(self, worker: NodePod, key: tuple[str, str], reply: Reply) -> None:
        deleted_uid = self._requested.pop(key)
        if reply.ok and deleted_uid in (ANY, reply.obj["metadata"]["uid"]):
            worker.wake()  # the API shows otherwise; if it shows no mirror, another one is created
        elif reply.ok:
            self._mirrors[key] = reply.obj
            self._target(worker, reply.obj)
        elif reply.reason != "AlreadyExists":  # else the API will show it
            self._retry_later(worker)

    def _retry_later(self, worker: NodePod) -> None:
        if worker.uid not in self._retrying:
            self._retrying = (*self._retrying, worker.uid)
            agent = self._agent
            agent.ctx.call_at_us(agent.resync_after(agent.options.sync_frequency_us), self._retry, worker)

    def _retry(self, worker: NodePod) -> None:
        """Sync the pod in place of one of its regular resyncs, which are left out otherwise."""
        self._retrying = tuple(uid for uid in self._retrying if uid != worker.uid)
        worker.wake()

    def _delete(self, pod: Obj) -> None:
        meta = pod["metadata"]
        self._agent.api.delete_pod(meta["namespace"], meta["name"], meta["uid"], self._orphan_deleted)

    def _orphan_deleted(self, reply: Reply) -> None:
        if not reply.ok and reply.reason not in ("NotFound", "Conflict"):
            self._agent.housekeep_later()


def _key(pod: Obj) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]
