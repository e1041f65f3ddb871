"""The agent's static pods: those of the manifest directory, and of a URL (`manifest_url`).

Turns files into pods that are added, updated and removed.  A pod's uid follows from the content of
its file: another content is another pod, unless the manifest has a uid of its own.

Holds: a file that is written or removed takes effect at that instant (inotify); a file without a
valid pod keeps its earlier pod until the next read of the whole directory, and so does a file with
another name for its pod.

Mirrors  pkg/kubelet/config/file.go: listConfig, extractFromFile; file_linux.go: produceWatchEvent,
         consumeWatchEvent; config.go: merge by uid, in the order of removals, additions and
         updates; kubelet_pods.go: HandlePodCleanups, for pods that were recreated with the same uid
         (v1.25).
Differs  the directory is read every --file-check-frequency only where inotify left something to
         find; of a manifest that keeps its uid only a new image restarts a container.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from actors.node.runtime.ports import Agent
from actors.node.sources.mirrors import Mirrors, static_pod
from actors.node.sync_loop import SyncLoop
from sim.api.store import Item
from sim.api.types import Obj
from sim.units import NO_REVISION

Key = tuple[str, str]
_NONE: Mapping[Any, Any] = MappingProxyType({})


class Manifests:
    """What one incarnation of the agent has read.

    No attribute takes memory on a machine without files.

    _store: pods by namespace and name
    _files: file -> key of the pod that the file last held
    _fetched: pods of the URL; None before its first answer
    _sent: uid -> pod as last delivered
    _returning: uid -> pod that exists again while its former worker still ends
    _list_planned: True if a read of the whole directory is scheduled
    """

    __slots__ = (
        "_agent", "_began_us", "_drop", "_fetched", "_files", "_list_planned", "_loop", "_mirrors", "_returning",
        "_sent", "_store",
    )  # fmt: skip

    def __init__(self, agent: Agent, loop: SyncLoop, mirrors: Mirrors, drop: Callable[[str], None]) -> None:
        self._agent, self._loop, self._mirrors, self._drop = agent, loop, mirrors, drop
        self._began_us = agent.now_us
        self._store: Mapping[Key, Obj] = _NONE
        self._fetched: Sequence[Obj] | None = None if agent.options.manifest_url else ()
        self._files: Mapping[str, Key] = _NONE
        self._sent: Mapping[str, Obj] = _NONE
        self._returning: Mapping[str, Obj] = _NONE
        self._list_planned = False

    def start(self) -> None:
        """Read the directory for the first time."""
        if self._found():
            self._list(None)

    @property
    def ready(self) -> bool:
        """True once each source has delivered its pods."""
        return self._fetched is not None

    def fetched(self, manifests: Sequence[Obj], url: str) -> None:
        """The pods of the URL are these."""
        agent, first = self._agent, not self.ready
        seen_us = agent.ctx.wall_us()
        pods = [static_pod(each, agent.spec.name, agent.names, seen_us, url) for each in manifests]
        # Quirk: of two pods with one name the later is dropped.
        self._fetched = [*{_key(pod): pod for pod in reversed(pods)}.values()][::-1]
        self._deliver_changes()
        if first:
            agent.housekeep_later()

    def _found(self) -> Mapping[str, Obj | None]:
        """The files of the directory, without those that it hides."""
        agent = self._agent
        if not agent.options.pod_manifest_path:
            return _NONE
        return {file: held for file, held in agent.machine.manifests.items() if not file.startswith(".")}

    def changed(self, file: str) -> None:
        """Inotify reports an event of this file."""
        self._agent.ctx.call_later_us(0, self._read_changed, file)

    def _read_changed(self, file: str) -> None:
        found = self._found()
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
        self._deliver_changes()

    def _read(self, file: str, manifest: Obj) -> Key:
        agent = self._agent
        pod = static_pod(manifest, agent.spec.name, agent.names, agent.ctx.wall_us())
        key = _key(pod)
        self._files = {**self._files, file: key}
        self._store = {**self._store, key: pod}
        return key

    def _list_later(self) -> None:
        if not self._list_planned:
            self._list_planned = True
            period_us, agent = self._agent.options.file_check_frequency_us, self._agent
            agent.ctx.call_later_us(period_us - (agent.now_us - self._began_us) % period_us, self._list)

    def _list(self, _: object) -> None:
        """Read the whole directory."""
        self._list_planned = False
        self._store = _NONE
        for file, manifest in self._found().items():
            if manifest is not None:
                self._read(file, manifest)
        self._deliver_changes()

    def _deliver_changes(self) -> None:
        """Deliver the differences to what was delivered before.

        A known pod keeps the time at which it was first seen.
        """
        seen = self._agent.names.annotation_config_seen
        before = self._sent
        sent: dict[str, Obj] = {}
        for pod in (*self._store.values(), *(self._fetched or ())):
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
                self._deliver(self._removed, uid)
        for uid in sent:
            if uid not in before:
                self._deliver(self._added, sent[uid])
        for uid, pod in sent.items():
            if before.get(uid, pod) != pod:
                self._deliver(self._updated, pod)

    def _deliver(self, handler: Callable[[Any], None], what: str | Obj) -> None:
        loop = self._loop
        if loop.asleep:
            loop.handle_later(handler, what)
        else:
            handler(what)

    def _added(self, pod: Obj) -> None:
        agent, uid = self._agent, pod["metadata"]["uid"]
        self._mirrors.expect(pod)
        if uid in agent.workers:
            self._returning = {**self._returning, uid: pod}
        else:
            agent.pod_added(_item(pod), pod)

    def returns(self, uid: str) -> bool:
        """True if the pod is to start again when its worker has finished."""
        return uid in self._returning

    def restart(self) -> None:
        """Housekeeping: start pods that exist again and of which nothing is left."""
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
        self._mirrors.dismiss(uid)
        if uid in self._returning:
            self._returning = _without(self._returning, uid)
        self._drop(uid)
        if uid in agent.workers:
            agent.pod_removed(uid)


def _key(pod: Obj) -> Key:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _without(held: Mapping[Any, Any], key: object) -> dict[Any, Any]:
    return {name: value for name, value in held.items() if name != key}


def _item(pod: Obj) -> Item:
    meta = pod["metadata"]
    return Item(f"//pods/{meta['namespace']}/{meta['name']}", pod, NO_REVISION, NO_REVISION)
