"""The agent's file source: pods of the manifest directory, as its files come, change and go.

Turns files into pods that are added, updated and removed, each with a uid that follows from what its file says: another
text is another pod, unless the manifest bears a uid itself.

Holds: a file that is written or removed is seen to at that instant (inotify tells); one in which there is no pod any more
keeps the pod that was in it until the next look at the whole directory, and so does one whose pod has another name now.

Mirrors  pkg/kubelet/config/file.go: listConfig, extractFromFile; file_linux.go: produceWatchEvent, consumeWatchEvent;
         config.go: merge by uid, in the order of removals, additions and updates; kubelet_pods.go: HandlePodCleanups, of
         pods that were recreated with the same uid (v1.25).
Differs  the directory is looked at each --file-check-frequency only where inotify left something to find; of a manifest that
         keeps its uid a container starts anew by a new image alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from actors.node.sources.mirrors import static_pod
from sim.api.store import Item
from sim.api.types import Obj

if TYPE_CHECKING:
    from actors.node.agent import NodeAgent

Key = tuple[str, str]
_NONE: Mapping[Any, Any] = MappingProxyType({})


class Manifests:
    """What one incarnation of the agent has read.

    _store: pods by namespace and name; _files: which one each file was last found to hold; _sent: by uid, what has been told;
    _returning: those that are there again while they are still being ended.  None of them takes room on a machine without files.
    """

    __slots__ = ("_agent", "_began_us", "_files", "_listing", "_returning", "_sent", "_store")

    def __init__(self, agent: NodeAgent) -> None:
        self._agent = agent
        self._began_us = agent.now_us
        self._store: Mapping[Key, Obj] = _NONE
        self._files: Mapping[str, Key] = _NONE
        self._sent: Mapping[str, Obj] = _NONE
        self._returning: Mapping[str, Obj] = _NONE
        self._listing = False

    def start(self) -> None:
        if self._agent.machine.manifests:
            self._list(None)

    def changed(self, file: str) -> None:
        """Inotify has an event of this file: for the agent, when it runs."""
        self._agent.ctx.call_later_us(0, self._look, file)

    def _look(self, file: str) -> None:
        found = self._agent.machine.manifests
        if file not in found:
            key = self._files.get(file)
            if key is not None:
                self._files = _without(self._files, file)
                self._store = _without(self._store, key)
        elif (manifest := found[file]) is None:
            self._list_later()
        else:
            before = self._files.get(file)
            if before != self._read(file, manifest) and before is not None:
                self._list_later()
        self._send()

    def _read(self, file: str, manifest: Obj) -> Key:
        agent = self._agent
        pod = static_pod(manifest, agent.spec.name, agent.names, agent.ctx.wall_us())
        key = pod["metadata"]["namespace"], pod["metadata"]["name"]
        self._files = {**self._files, file: key}
        self._store = {**self._store, key: pod}
        return key

    def _list_later(self) -> None:
        if not self._listing:
            self._listing = True
            period_us, agent = self._agent.options.file_check_frequency_us, self._agent
            agent.ctx.call_later_us(period_us - (agent.now_us - self._began_us) % period_us, self._list)

    def _list(self, _: object) -> None:
        """The whole directory."""
        self._listing = False
        self._store = _NONE
        for file, manifest in self._agent.machine.manifests.items():
            if manifest is not None:
                self._read(file, manifest)
        self._send()

    def _send(self) -> None:
        """Tell how what there is differs from what has been told.  What is known keeps the time at which it was first seen."""
        seen = self._agent.names.annotation_config_seen
        before = self._sent
        sent: dict[str, Obj] = {}
        for pod in self._store.values():
            uid = pod["metadata"]["uid"]
            held = before.get(uid)
            if held is not None:
                since = held["metadata"]["annotations"][seen]
                annotations = {**pod["metadata"]["annotations"], seen: since}
                pod = {**pod, "metadata": {**pod["metadata"], "annotations": annotations}}
            sent[uid] = pod
        self._sent = sent
        for uid in before:
            if uid not in sent:
                self._hand_on(self._removed, uid)
        for uid in sent:
            if uid not in before:
                self._hand_on(self._added, sent[uid])
        for uid, pod in sent.items():
            if before.get(uid, pod) != pod:
                self._hand_on(self._updated, pod)

    def _hand_on(self, handler: Callable[[Any], None], what: str | Obj) -> None:
        loop = self._agent.loop
        if loop.asleep:
            loop.handle_later(handler, what)
        else:
            handler(what)

    def _added(self, pod: Obj) -> None:
        agent, uid = self._agent, pod["metadata"]["uid"]
        agent.mirrors.expect(pod)
        if uid in agent.workers:
            self._returning = {**self._returning, uid: pod}
        else:
            agent.pod_added(_item(pod), pod)

    def returns(self, uid: str) -> bool:
        """Whether the pod is to begin anew when its worker has finished."""
        return uid in self._returning

    def restart(self) -> None:
        """Housekeeping: those that are there again, and of which nothing is left."""
        for uid in [uid for uid in self._returning if uid not in self._agent.workers]:
            pod = self._returning[uid]
            self._returning = _without(self._returning, uid)
            self._agent.pod_added(_item(pod), pod)

    def _updated(self, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        worker = self._agent.workers.get(uid)
        if uid in self._returning:
            self._returning = {**self._returning, uid: pod}
        elif worker is not None:
            worker.update(_item(pod))

    def _removed(self, uid: str) -> None:
        agent = self._agent
        agent.mirrors.dismiss(uid)
        if uid in self._returning:
            self._returning = _without(self._returning, uid)
        agent.preemption.drop(uid)
        worker = agent.workers.get(uid)
        if worker is not None:
            agent.pod_removed(worker)


def _without(held: Mapping[Any, Any], key: object) -> dict[Any, Any]:
    return {one: value for one, value in held.items() if one != key}


def _item(pod: Obj) -> Item:
    meta = pod["metadata"]
    return Item(f"//pods/{meta['namespace']}/{meta['name']}", pod, 0, 0)
