"""Which volumes are to be attached where, and which are.  Pure.

Turns what is known of pods, nodes and attachments into the pairs of volume and node that differ.

Holds: a pair is open while it is wanted and not attached, or attached and not wanted.

Mirrors  kubernetes v1.25 pkg/controller/volume/attachdetach/cache: desired_state_of_world.go,
         actual_state_of_world.go; pkg/volume/util/util.go (IsMultiAttachAllowed).
Differs  pairs are in the order in which they became open; upstream's order is that of a map.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import field

from sim.api.types import Obj
from sim.dataclass import dataclass

Pair = tuple[str, str]
"""The unique name of a volume, and a node."""


@dataclass(slots=True)
class Wanted:
    """A volume that pods need on a node.

    pods: by their uid
    reported: True if the pods were notified that the volume is in use elsewhere
    under_way: True while it is being attached
    """

    volume: Obj
    pods: dict[str, Obj] = field(default_factory=dict)
    reported: bool = False
    under_way: bool = False


@dataclass(slots=True)
class Attached:
    """A volume at a node.

    volume: None if it is not known yet, after a start of the controller
    mounted: False once the node has reported that it does not use the volume
    confirmed: False if an attempt to attach it failed, so that it may be there or not
    detach_since_us: the time since which it is to be detached; None if it is not
    """

    volume: Obj | None
    mounted: bool = True
    confirmed: bool = False
    detach_since_us: int | None = None


@dataclass(slots=True)
class Report:
    """What a node's status says of its volumes.  due: True if it has to be written"""

    volumes: dict[str, None] = field(default_factory=dict)
    due: bool = True


def shares(volume: Obj | None) -> bool:
    """True if a volume may be attached to several nodes at the same time."""
    modes = None if volume is None else volume["spec"].get("accessModes")
    return not modes or "ReadWriteMany" in modes or "ReadOnlyMany" in modes


class World:
    """Both states of all volumes.

    managed: nodes at which this controller attaches volumes; True if they keep those of ended pods
    compared_us: when the drivers were last asked what is attached
    """

    def __init__(self) -> None:
        self.managed: dict[str, bool] = {}
        self.compared_us = 0
        self.wanted: dict[Pair, Wanted] = {}
        self.attached: dict[Pair, Attached] = {}
        self.open: dict[Pair, None] = {}
        self.reports: dict[str, Report] = {}
        self._nodes_of: dict[str, dict[str, None]] = {}  # nodes of each attached volume
        self._volumes_at: dict[str, dict[str, None]] = {}  # attached volumes of each node

    # --- wanted -----------------------------------------------------------------------------------

    def want(self, pair: Pair, volume: Obj, pod: Obj) -> bool:
        """A pod needs a volume on its node; returns True if that is new."""
        wanted = self.wanted.get(pair)
        if wanted is None:
            wanted = self.wanted[pair] = Wanted(volume)
        uid = pod["metadata"]["uid"]
        known = uid in wanted.pods
        wanted.pods[uid] = pod
        wanted.volume = volume
        if not known:
            self._settle(pair)
        return not known

    def unwant(self, pair: Pair, uid: str) -> bool:
        """A pod does not need a volume any more; returns True if it did."""
        wanted = self.wanted.get(pair)
        if wanted is None or wanted.pods.pop(uid, None) is None:
            return False
        if not wanted.pods:
            del self.wanted[pair]
            self._settle(pair)
        return True

    def is_wanted_at(self, node: str) -> bool:
        """True if a pod needs a volume at this node."""
        return any(pair[1] == node for pair in self.wanted)

    def users(self, volume: str, nodes: Collection[str]) -> list[Obj]:
        """The pods that need a volume on some of these nodes."""
        found = (self.wanted.get((volume, node)) for node in nodes)
        return [pod for one in found if one is not None for pod in one.pods.values()]

    # --- attached ---------------------------------------------------------------------------------

    def mark(self, pair: Pair, volume: Obj | None, *, confirmed: bool) -> None:
        """A volume is attached, or (confirmed is False) may be."""
        known = self.attached.get(pair)
        if known is None:
            known = self.attached[pair] = Attached(volume)
            name, node = pair
            self._nodes_of.setdefault(name, {})[node] = None
            self._volumes_at.setdefault(node, {})[name] = None
        known.volume = volume
        known.confirmed = confirmed
        if confirmed:
            self.report(pair)
        self._settle(pair)

    def detached(self, pair: Pair) -> None:
        """A volume is not attached any more."""
        if self.attached.pop(pair, None) is None:
            return
        name, node = pair
        for index, key, value in ((self._nodes_of, name, node), (self._volumes_at, node, name)):
            del index[key][value]
            if not index[key]:
                del index[key]
        self.unreport(pair)
        self._settle(pair)

    def volumes_at(self, node: str) -> Collection[str]:
        """The volumes that are, or may be, attached to a node."""
        return self._volumes_at.get(node, ())

    def nodes_of(self, volume: str) -> list[str]:
        """The nodes to which a volume is attached for certain."""
        return [node for node in self._nodes_of.get(volume, ()) if self.attached[volume, node].confirmed]

    def set_in_use(self, node: str, in_use: Collection[str]) -> None:
        """The volumes that a node reports to use."""
        for name in self.volumes_at(node):
            self.attached[name, node].mounted = name in in_use

    def _settle(self, pair: Pair) -> None:
        attached = self.attached.get(pair)
        if pair in self.wanted:
            is_open = attached is None or not attached.confirmed or attached.detach_since_us is not None
        else:
            is_open = attached is not None
        if is_open:
            self.open.setdefault(pair)
        else:
            self.open.pop(pair, None)

    def keep(self, pair: Pair) -> None:
        """An attached volume is wanted: it is not to be detached."""
        self.attached[pair].detach_since_us = None
        self._settle(pair)

    # --- reports ----------------------------------------------------------------------------------

    def report(self, pair: Pair) -> None:
        """Let the node's status name a volume."""
        if pair in self.attached:
            report = self.reports.setdefault(pair[1], Report())
            if pair[0] not in report.volumes:
                report.volumes[pair[0]] = None
                report.due = True

    def unreport(self, pair: Pair) -> None:
        """Let the node's status not name a volume."""
        report = self.reports.get(pair[1])
        if report is not None and pair[0] in report.volumes:
            del report.volumes[pair[0]]
            report.due = True


def multi_attach_text(pod: Obj, others: Collection[Obj]) -> str:
    """Why a pod cannot have a volume that is attached elsewhere, by the pods that use it there."""
    if not others:
        return "Volume is already exclusively attached to one node and can't be attached to another"
    namespace = pod["metadata"]["namespace"]
    near = [one["metadata"]["name"] for one in others if one["metadata"]["namespace"] == namespace]
    far = len(others) - len(near)
    if not near:
        return f"Volume is already used by {far} pod(s) in different namespaces"
    text = f"Volume is already used by pod(s) {', '.join(near)}"
    return f"{text} and {far} pod(s) in different namespaces" if far else text
