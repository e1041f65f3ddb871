"""What a node agent records: events of nodes, pods and containers, and lines of its log.

Mirrors  pkg/kubelet/kubelet_node_status.go: recordNodeStatusEvent; container/helpers.go:
         GenerateContainerRef (v1.25).
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern

from actors.node.agent_log import log_event
from actors.node.clients import WarningRecorder
from actors.node.pods.pod_objects import reference
from actors.node.runtime.machine import Machine
from sim.api.types import Obj
from sim.client.events.recorder import EventKind, EventRecorder
from sim.client.events.recorder import reference as reference_to
from sim.ident import Names
from sim.klog import Klog, Ref

NO_REFERENCE: tuple[tuple[str, str, str], Obj] = ("", "", ""), {}


class AgentEvents:
    """The part of an agent that records.  log: None if no one keeps it

    _reference: the pod and container of the last event, which often is that of the next
    """

    __slots__ = ("_recorder", "_reference", "log", "machine", "names", "spec")

    def __init__(
        self, machine: Machine, names: Names, recorder: EventRecorder | WarningRecorder, log: Klog | None
    ) -> None:
        self.machine, self.spec, self.names = machine, machine.spec, names
        self.log = log
        self._recorder = recorder
        self._reference = NO_REFERENCE

    def node_event(self, reason: str, text: str = "", type_: EventKind = "Normal") -> None:
        """Record an event about the node; the text follows from the reason if none is given."""
        name = self.spec.name
        if self.log is not None and not text and reason not in ("Starting", "Rebooted"):
            where = f"{self.names.node_agent}/{self.names.node_agent}_node_status.go:669"
            self.log.info(2, where, "Recording event message for node", node=Ref(name), event=reason)
        text = text or f"Node {name} status is now: {reason}"
        if reason == "Starting":
            text = f"Starting {self.names.node_agent}."
        elif reason == "Rebooted":
            type_, text = "Warning", f"Node {name} has been rebooted, boot id: {self.machine.boot_id}"
        # Quirk: events of the node carry the node's name as uid.
        reference = {"kind": "Node", "name": name, "uid": name}
        self._record(reference, type_, reason, text)

    def event(
        self,
        pod: Obj,
        type_: EventKind,
        reason: str,
        message: str,
        container: str = "",
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Record an event about a pod or one of its containers."""
        meta = pod["metadata"]
        about = meta["uid"], meta.get("resourceVersion", ""), container
        if self._reference[0] != about:
            self._reference = about, reference(pod, container)
        # Very many events have the same message: one string serves them all.
        self._record(self._reference[1], type_, reason, intern(message), annotations)

    def event_about(self, obj: Obj, type_: EventKind, reason: str, message: str) -> None:
        """Record an event about an object that is not a pod."""
        self._record(reference_to(obj), type_, reason, message)

    def _record(
        self,
        about: Obj,
        type_: EventKind,
        reason: str,
        message: str,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        if self.log is not None:
            log_event(self.log, about, type_, reason, message)
        self._recorder.event(about, type_, reason, message, annotations=annotations)

    def log_pod(self, what: str, pod: Obj) -> None:
        """Log that the sync loop has got a change of a pod from one of its sources."""
        if self.log is not None:
            meta = pod["metadata"]
            source = (meta.get("annotations") or {}).get(self.names.annotation_config_source) or "api"
            where = f"{self.names.node_agent}/{self.names.node_agent}.go:2096"
            self.log.info(
                2, where, f"SyncLoop {what}", source=source, pods=[Ref(meta["name"], meta["namespace"])]
            )

    def tidy_events(self) -> None:
        """Release memory that is no longer used."""
        self._reference = NO_REFERENCE
        self._recorder.tidy()
