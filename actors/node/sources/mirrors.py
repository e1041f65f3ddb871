"""Static pods of one node and their mirrors in the API.

Turns each pod of the manifest directory (`manifests`) into a mirror pod that shows its status.  Deleting the mirror does not
stop the pod: the mirror is made again.

Holds: of static pods of one name one runs at a time: the next one waits until nothing is left of it; a mirror without a
static pod is deleted by housekeeping, but not while what it showed is still being ended.

Mirrors  pkg/kubelet/config/common.go: applyDefaults; pod/mirror_client.go; kubelet.go: syncPod step 7; kubelet_pods.go:
         HandlePodCleanups; pod_workers.go: allowStaticPodStart, IsPodForMirrorPodTerminatingByFullName (v1.25).
Differs  the uid is a hash of the manifest as JSON; of several that wait to take one name the others are gone already.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sim.api.store import Item
from sim.api.types import Obj, Reply
from sim.ident import Names
from sim.units import format_micro_time

if TYPE_CHECKING:
    from actors.node.agent import NodeAgent
    from actors.node.pods.worker import Worker


ANY = "any"
_NONE: Mapping[Any, Any] = MappingProxyType({})


def static_pod(manifest: Obj, node: str, names: Names, seen_us: int) -> Obj:
    """The manifest as the agent runs it: uid, name, namespace, node, hash and toleration filled in.

    seen_us: the wall clock as the agent first saw it
    """
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    meta = dict(manifest.get("metadata") or {})
    uid = meta.get("uid") or hashlib.md5(f"{text}/{node}".encode(), usedforsecurity=False).hexdigest()
    meta |= {
        "name": f"{meta['name']}-{node.lower()}",
        "namespace": meta.get("namespace") or names.default_namespace,
        "uid": uid,
        "annotations": {
            **(meta.get("annotations") or {}),
            names.annotation_config_hash: uid,
            names.annotation_config_source: "file",
            names.annotation_config_seen: f"{format_micro_time(seen_us).removesuffix('Z')}000Z",  # nanoseconds
        },
    }
    spec = manifest["spec"]
    tolerations = [*(spec.get("tolerations") or ()), {"operator": "Exists", "effect": "NoExecute"}]
    return {**manifest, "metadata": meta, "spec": {**spec, "nodeName": node, "tolerations": tolerations}}


def mirror_of(pod: Obj, node: Obj, names: Names) -> Obj:
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
    """The static pods of one agent and what is known of their mirrors (by namespace and name).  `uids`: of the former."""

    __slots__ = ("_agent", "_busy", "_known", "_later", "_started", "_static", "uids")

    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent
        self._static: Mapping[tuple[str, str], str] = _NONE
        self._known: dict[tuple[str, str], Obj] = {}
        # Those that are asked for, and the uid of one that was seen to go meanwhile (ANY: nobody knows which).
        self._busy: dict[tuple[str, str], str] = {}
        self._started: Mapping[tuple[str, str], str] = (
            _NONE  # whose name it is, until its worker has finished
        )
        self._later: tuple[str, ...] = ()  # pods whose mirrors could not be made, and are to be tried again
        self.uids: tuple[str, ...] = ()

    def expect(self, pod: Obj) -> None:
        """A static pod that there is from now on."""
        self._static = {**self._static, _key(pod): pod["metadata"]["uid"]}
        self.uids = tuple(self._static.values())

    def dismiss(self, uid: str) -> None:
        """There is no such static pod any more."""
        self._static = {key: held for key, held in self._static.items() if held != uid}
        self.uids = tuple(self._static.values())

    def may_start(self, worker: Worker) -> bool:
        """Whether nothing is left of another static pod of its name."""
        if worker.uid not in self.uids:
            return True
        key = _key(worker.pod)
        if key not in self._started:
            self._started = {**self._started, key: worker.uid}
        return self._started[key] == worker.uid

    def stopped(self, worker: Worker) -> None:
        """Nothing of the pod runs any more."""
        if worker.removed and _key(worker.pod) in self._known:
            self._agent.housekeep_later()

    def finished(self, worker: Worker) -> None:
        """Its worker has done all that there was to do."""
        if self._started and self._started.get(key := _key(worker.pod)) == worker.uid:
            self._started = {one: uid for one, uid in self._started.items() if one != key}
        if worker.uid in self.uids and self._agent.manifests.returns(worker.uid):
            self._agent.housekeep_later()

    def observed(self, pod: Obj | None, key: tuple[str, str]) -> None:
        """The source showed a mirror (None: it is gone): the static pod is synced."""
        if pod is None:
            held = self._known.pop(key, None)
            if held is not None and key in self._busy:
                self._busy[key] = held["metadata"]["uid"]
        else:
            self._known[key] = pod
        uid = self._static.get(key)
        worker = self._agent.workers.get(uid) if uid is not None else None
        if worker is not None:
            if pod is not None:
                self._target(worker, pod)
            worker.wake()
        elif pod is not None and self._agent.sources_ready:
            self._agent.housekeep_later()

    def keep(self, items: Sequence[Item]) -> None:
        """The source was listed: of all that were known there are those that it has."""
        if self._known or self._busy:
            here = {
                (item.peek("metadata", "namespace"), item.peek("metadata", "name")): None for item in items
            }
            self._busy = {key: gone if key in here else ANY for key, gone in self._busy.items()}
            for key in [key for key in self._known if key not in here]:
                self.observed(None, key)

    def remove_orphans(self) -> None:
        for key in sorted(self._known):
            if key not in self._static and not self._is_ending(key):
                self._delete(self._known[key])

    def _is_ending(self, key: tuple[str, str]) -> bool:
        """Whether something of the static pod that had this name may run."""
        worker = self._agent.workers.get(self._started.get(key, ""))
        return worker is not None and worker.state == "terminating"

    def _target(self, worker: Worker, pod: Obj) -> None:
        entry = self._agent.statuses.entry(worker.uid)
        if entry is not None and entry.target != pod["metadata"]["uid"]:
            entry.target = pod["metadata"]["uid"]
            self._agent.statuses.push(worker.uid)

    def sync(self, worker: Worker) -> None:
        """Make or replace the mirror of a static pod."""
        agent, meta = self._agent, worker.pod["metadata"]
        key = meta["namespace"], meta["name"]
        if key in self._busy:
            return
        mirror = self._known.get(key)
        if mirror is None:
            self._create(worker, key)
            return
        held = mirror["metadata"]
        marked = (held.get("annotations") or {}).get(agent.names.annotation_mirror_pod)
        wanted = meta["annotations"][agent.names.annotation_config_hash]
        if marked != wanted or held.get("deletionTimestamp"):
            self._busy[key] = ""
            agent.api.delete_pod(*key, held["uid"], lambda reply: self._deleted(worker, key, reply))

    def _deleted(self, worker: Worker, key: tuple[str, str], reply: Reply) -> None:
        """Only in the place of one that this has deleted there is a new one at once."""
        self._busy.pop(key, None)
        if reply.ok:
            self._create(worker, key)
        else:
            self._try_later(worker)

    def _create(self, worker: Worker, key: tuple[str, str]) -> None:
        agent = self._agent
        node = agent.node
        if node and not node["metadata"].get("deletionTimestamp"):
            self._busy[key] = ""
            agent.api.create_pod(
                mirror_of(worker.pod, node, agent.names), lambda reply: self._created(worker, key, reply)
            )
        elif agent.node_loop.registered:
            self._try_later(worker)

    def _created(self, worker: Worker, key: tuple[str, str], reply: Reply) -> None:
        gone = self._busy.pop(key)
        if reply.ok and gone in (ANY, reply.obj["metadata"]["uid"]):
            worker.wake()  # the source knows better; if it knows of none, another one is made
        elif reply.ok:
            self._known[key] = reply.obj
            self._target(worker, reply.obj)
        elif reply.reason != "AlreadyExists":  # else the source will show it
            self._try_later(worker)

    def _try_later(self, worker: Worker) -> None:
        if worker.uid not in self._later:
            self._later = (*self._later, worker.uid)
            agent = self._agent
            agent.ctx.call_at_us(agent.resync_after(agent.options.sync_frequency_us), self._try_again, worker)

    def _try_again(self, worker: Worker) -> None:
        """One of the pod's resyncs, which come without a reason: here this is theirs."""
        self._later = tuple(uid for uid in self._later if uid != worker.uid)
        worker.wake()

    def _delete(self, pod: Obj) -> None:
        meta = pod["metadata"]
        self._agent.api.delete_pod(meta["namespace"], meta["name"], meta["uid"], self._orphan_deleted)

    def _orphan_deleted(self, reply: Reply) -> None:
        if not reply.ok and reply.reason not in ("NotFound", "Conflict"):
            self._agent.housekeep_later()


def _key(pod: Obj) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]
