"""The parts that every scheduler plugin is made of: status, events, the plugin classes, the view of
a node.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/{interface,types}.go: Status, ClusterEvent,
         FilterPlugin, ScorePlugin, EnqueueExtensions; framework/plugins/helper/normalize_score.go.
Differs  only the volumes of a pod have a state of their own for one scheduling cycle (CycleState);
         what they reserve and bind is in `actors.scheduler.volumes`. No other plugin binds anything
         (Reserve, Permit, PreBind, PostBind).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import Enum, Flag, auto
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from actors.scheduler.cluster import Cluster, NodeInfo
from actors.scheduler.pods import Template
from actors.scheduler.volumes.pod_volumes import PodVolumes
from sim.options.scheduling.profiles import ProfileSpec

MAX_SCORE = 100  # MaxNodeScore

PodT = TypeVar("PodT")
NodeT = TypeVar("NodeT")
DEFAULT = ProfileSpec()


class Status(NamedTuple):
    """The reason why a plugin refuses a node.

    plugin: the plugin's name
    reasons: texts of the FailedScheduling message
    unresolvable: True if the removal of pods cannot help (UnschedulableAndUnresolvable)
    """

    plugin: str
    reasons: tuple[str, ...]
    unresolvable: bool = False


class ClusterEvent(Flag):
    """The changes in the cluster after which pods that have no node are tried again.

    A pod is tried again when one of the plugins that refused it names the event, and not before its
    back-off has ended. Two limits are upstream's: an event of a node counts only for pods that the
    node could take by its labels, taints, ports and resources, and POD_ADD and POD_UPDATE count
    only for pods with a required pod affinity term that the added pod matches.
    """

    NODE_ADD = auto()
    NODE_ALLOCATABLE = auto()
    NODE_LABEL = auto()
    NODE_TAINT = auto()  # also when the node becomes schedulable
    NODE_CONDITION = auto()
    POD_ADD = auto()  # a pod got a node
    POD_UPDATE = auto()  # a pod that has a node changed
    POD_DELETE = auto()  # a pod left its node
    CLAIM_ADD = auto()
    CLAIM_UPDATE = auto()
    VOLUME_ADD = auto()
    VOLUME_UPDATE = auto()
    STORAGE_CLASS_ADD = auto()  # of a class of claims that wait for a pod
    STORAGE_CLASS_UPDATE = auto()
    CSI_NODE_ADD = auto()
    CSI_NODE_UPDATE = auto()
    CSI_DRIVER = auto()  # added or updated
    CSI_CAPACITY = auto()  # added or updated
    NODE_UPDATE = NODE_ALLOCATABLE | NODE_LABEL | NODE_TAINT | NODE_CONDITION
    NODE = NODE_ADD | NODE_UPDATE
    POD = POD_ADD | POD_UPDATE | POD_DELETE
    CLAIM = CLAIM_ADD | CLAIM_UPDATE
    VOLUME = VOLUME_ADD | VOLUME_UPDATE
    CSI_NODE = CSI_NODE_ADD | CSI_NODE_UPDATE
    STORAGE_CLASS = STORAGE_CLASS_ADD | STORAGE_CLASS_UPDATE
    STORAGE = CLAIM | VOLUME | STORAGE_CLASS | CSI_NODE | CSI_DRIVER | CSI_CAPACITY
    ALL = NODE | POD | STORAGE


NO_EVENT = ClusterEvent(0)


class Reads(Enum):
    """What the results of a default plugin depend on; the incremental search remembers them
    accordingly.
    """

    NODE = auto()  # the node's own properties
    ROOM = auto()  # in addition the ports and resources that pods take on the node
    CLUSTER = auto()  # the pods and labels of other nodes


class Plugin(Generic[PodT, NodeT]):
    """A rule about which nodes a pod may use and which of them it prefers.

    name: unique name, the one of the FailedScheduling statistics
    weight: factor of the plugin's scores in the sum over all plugins
    events: the changes that can make a pod schedulable that this plugin refused
    absolute_scores: True if `score` gives final values from 0 to 100; False if `normalize` makes
        them final
    """

    name: str = ""
    weight: int = 1
    events: ClusterEvent = ClusterEvent.ALL
    absolute_scores: bool = False

    def filter(self, pod: PodT, node: NodeT) -> Status | None:
        """Return the reason why the pod cannot use the node (see `refuse`), or None if it can."""
        return None

    def score(self, pod: PodT, node: NodeT) -> int:
        """Return how well the node suits the pod; a higher score is better."""
        return 0

    def normalize(self, scores: list[int]) -> list[int]:
        """Turn the scores of the feasible nodes into final ones from 0 to 100; by default the
        greatest gets 100.

        A result may depend on its score and on the set of all scores, not on their order or number:
        nodes that do not differ may be listed once.
        """
        return shares(scores)

    def final_scores(self, scores: list[int]) -> list[int]:
        """Return the values from 0 to 100 that the weight multiplies."""
        return scores if self.absolute_scores else self.normalize(scores)

    def scores(self, pod: PodT, nodes: Sequence[NodeT]) -> list[int]:
        """Return the final scores of all feasible nodes."""
        return self.final_scores([self.score(pod, node) for node in nodes])

    def refuse(self, *reasons: str, unresolvable: bool = False) -> Status:
        """Return the status of a node that this plugin refuses; see `Status`."""
        return Status(self.name, reasons, unresolvable)


class DefaultPlugin(Plugin[Template, NodeInfo]):
    """A plugin of upstream's default profile. It reads the parsed forms of pods and nodes.

    reads: what its results depend on
    """

    reads: ClassVar[Reads]

    def __init__(self, cluster: Cluster, spec: ProfileSpec = DEFAULT) -> None:
        self.cluster = cluster
        self.take(spec)

    def take(self, spec: ProfileSpec) -> None:
        """Follow the arguments of a profile."""


class VolumePlugin(Plugin[PodVolumes, NodeInfo]):
    """A plugin of upstream's default profile that reads the volumes of a pod.

    It filters after those that read the room on a node, and before those that read other nodes. Its
    result for a node depends on the claims of the single pod, so that the search remembers none.
    """

    def __init__(self, gates: Collection[str] = ()) -> None:
        self.gates = gates

    def pre_filter(self, pod: PodVolumes) -> Status | None:
        """Return the reason why no node can take the pod, or None."""
        return None


class CycleError(Exception):
    """A plugin failed, which ends the attempt with an error; the text names the plugin."""


class NodeView:
    """A node and the pods on it as a `SchedulerPlugin` sees them. The objects must not be changed."""

    __slots__ = ("_info",)

    def __init__(self, info: NodeInfo) -> None:
        self._info = info

    @property
    def name(self) -> str:
        """The node's name."""
        return self._info.name

    @property
    def obj(self) -> Mapping[str, Any]:
        """The Node object; the times of its heartbeats may be old."""
        assert self._info.obj is not None
        return self._info.obj

    @property
    def labels(self) -> Mapping[str, str]:
        """The node's labels."""
        return self._info.labels

    @property
    def pods(self) -> tuple[Mapping[str, Any], ...]:
        """The pods on the node, those included that this scheduler has just placed there.

        While the scheduler searches for pods to preempt, the view shows the node without them.
        """
        return tuple([pod.obj for pod in self._info.pods.values()])


class SchedulerPlugin(Plugin[Mapping[str, Any], NodeView]):
    """Base class of plugins that library users add. They read the objects of the API.

    `filter` and `score` are pure functions of the pod, the node and the pods on the node. The
    scheduler calls them again when one of these changes; it calls them for some nodes more often
    than upstream and for others not at all. The package's docstring shows an example.
    """

    def pod_key(self, pod: Mapping[str, Any]) -> object:
        """Return a hashable key of the pod; pods with equal keys and equal demands share their
        results.

        By default nothing is shared. A plugin that reads only a label, for example, can return
        the value of the label, and is then called once for all pods of a Deployment. Labels,
        requests, affinities, tolerations and other parts that the default plugins read may be
        left out of the key only if this plugin does not read them.
        """
        meta = pod["metadata"]
        return meta["namespace"], meta["name"], meta.get("uid"), meta.get("resourceVersion")


def shares(scores: list[int], reverse: bool = False) -> list[int]:
    """Scale scores to their share of the greatest, from 0 to 100 (DefaultNormalizeScore).

    reverse: True if a lower score is better
    """
    greatest = max([0, *scores])
    if not greatest:
        return [MAX_SCORE] * len(scores) if reverse else scores
    if reverse:
        return [MAX_SCORE - MAX_SCORE * score // greatest for score in scores]
    return [MAX_SCORE * score // greatest for score in scores]
