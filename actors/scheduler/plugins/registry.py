"""The ordered list of default plugins, and the profile: these and the plugins that library users
add.

Mirrors  kubernetes v1.25 pkg/scheduler/apis/config/v1/default_plugins.go: order and weights (the
         weights are in the classes); pkg/scheduler/framework/runtime/framework.go: NewFramework.
Differs  the plugins that read the volumes of a pod are a list of their own, since their results are
         not remembered; CinderLimits does not exist (the default profile of v1.25 leaves it out).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from actors.scheduler.cluster import Cluster, NodeInfo
from actors.scheduler.plugins.added import AddedPlugin
from actors.scheduler.plugins.base import (
    DEFAULT,
    ClusterEvent,
    DefaultPlugin,
    Reads,
    SchedulerPlugin,
    Status,
    VolumePlugin,
)
from actors.scheduler.plugins.image_locality import ImageLocality
from actors.scheduler.plugins.inter_pod_affinity import InterPodAffinity
from actors.scheduler.plugins.node_affinity import NodeAffinity, matches_node
from actors.scheduler.plugins.node_name import NodeName
from actors.scheduler.plugins.node_ports import NodePorts
from actors.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from actors.scheduler.plugins.node_resources_fit import NodeResourcesFit
from actors.scheduler.plugins.node_unschedulable import NodeUnschedulable
from actors.scheduler.plugins.node_volume_limits import (
    AzureDiskLimits,
    EBSLimits,
    GCEPDLimits,
    NodeVolumeLimits,
)
from actors.scheduler.plugins.pod_topology_spread import PodTopologySpread
from actors.scheduler.plugins.taint_toleration import TaintToleration
from actors.scheduler.plugins.volume_binding import VolumeBinding
from actors.scheduler.plugins.volume_restrictions import VolumeRestrictions
from actors.scheduler.plugins.volume_zone import VolumeZone
from actors.scheduler.pods import Template
from sim.api.scheduling import tolerates
from sim.errors import InputError
from sim.options.scheduling.profiles import ProfileSpec

_PLAIN = (DEFAULT.filters, DEFAULT.weights, DEFAULT.fit, DEFAULT.balanced)
DEFAULT_PLUGINS: tuple[type[DefaultPlugin], ...] = (
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    PodTopologySpread,
    InterPodAffinity,
    NodeResourcesBalancedAllocation,
    ImageLocality,
)
# These filter after NodeResourcesFit and before PodTopologySpread.
VOLUME_PLUGINS: tuple[type[VolumePlugin], ...] = (
    VolumeRestrictions,
    EBSLimits,
    GCEPDLimits,
    NodeVolumeLimits,
    AzureDiskLimits,
    VolumeBinding,
    VolumeZone,
)


def check_added(plugins: object) -> tuple[SchedulerPlugin, ...]:
    """Return the plugins that a library user adds.

    Raises InputError for an object that is not a `SchedulerPlugin`, and for a plugin without a
    name, with a name that is in use, a weight that is not a positive whole number, or events that
    are not a `ClusterEvent`.
    """
    if not isinstance(plugins, Iterable):
        raise _wrong(f"{plugins!r:.60} is not a list", "pass the plugins in a list")
    checked: list[SchedulerPlugin] = []
    names = {plugin.name for plugin in DEFAULT_PLUGINS} | {plugin.name for plugin in VOLUME_PLUGINS}
    for plugin in plugins:
        if not isinstance(plugin, SchedulerPlugin):
            remedy = "pass an object of a class derived from actors.scheduler.plugins.SchedulerPlugin"
            raise _wrong(f"{plugin!r:.60} is not a scheduler plugin", remedy)
        kind, name, weight, events = type(plugin).__name__, plugin.name, plugin.weight, plugin.events
        if type(name) is not str or not name:
            raise _wrong(f"{kind} has no name", f'such as name = "{kind}"')
        if name in names:
            raise _wrong(f"the name {name!r} of {kind} is in use", "choose another name")
        if type(weight) is not int or weight < 1:
            raise _wrong(f"the weight of {name} is {weight!r}", "a whole number from 1 on")
        if type(events) is not ClusterEvent:
            remedy = "a combination of actors.scheduler.plugins.ClusterEvent, such as ClusterEvent.NODE"
            raise _wrong(f"the events of {name} are {events!r}", remedy)
        names.add(name)
        checked.append(plugin)
    return tuple(checked)


def _wrong(message: str, remedy: str) -> InputError:
    return InputError(message, "scheduler_plugins", remedy)


class Profile:
    """The plugins of one scheduler on its view of the cluster, grouped by how the search uses them.

    plugins: the default plugins in the order in which they filter
    volumes: the default plugins that read the volumes of a pod
    added: plugins of library users; they filter after all default ones
    is_plain: True if the room on nodes is judged and scored as in the default profile
    events: the changes that wake pods, by name of the plugin that refused them
    normalized: default plugins that read one node only, with scores relative to other nodes
    absolute: default plugins that read one node only, with final scores
    """

    def __init__(
        self,
        cluster: Cluster,
        added: Sequence[SchedulerPlugin] = (),
        gates: Collection[str] = (),
        spec: ProfileSpec = DEFAULT,
    ) -> None:
        self.cluster, self.spec = cluster, spec
        self.is_plain = (spec.filters, spec.weights, spec.fit, spec.balanced) == _PLAIN
        self.plugins = tuple([plugin(cluster, spec) for plugin in DEFAULT_PLUGINS])
        self.volumes = tuple([plugin(gates) for plugin in VOLUME_PLUGINS if self.has_filter(plugin.name)])
        weighed: list[DefaultPlugin | VolumePlugin] = [*self.plugins, *self.volumes]
        for each in weighed:
            each.weight = (spec.weights or {}).get(each.name, each.weight)
        self.added = tuple(map(AddedPlugin, check_added(added)))
        every: list[DefaultPlugin | VolumePlugin | SchedulerPlugin] = [*self.plugins, *self.volumes, *added]
        self.events = {plugin.name: plugin.events for plugin in every}
        node = [plugin for plugin in self.plugins if plugin.reads is Reads.NODE]
        scoring = [plugin for plugin in node if _scores(plugin) and self.has_score(plugin.name)]
        self.normalized = tuple([plugin for plugin in scoring if not plugin.absolute_scores])
        self.absolute = tuple([plugin for plugin in scoring if plugin.absolute_scores])
        self._node_filters = self._filters_of(node)
        room = [plugin for plugin in self.plugins if plugin.reads is Reads.ROOM]
        self._room_filters = self._filters_of(room)
        self._room_scores = tuple(
            [
                (plugin.weight, plugin.score)
                for plugin in room
                if _scores(plugin) and self.has_score(plugin.name)
            ]
        )
        self._admission = self if spec is DEFAULT else Profile(cluster)
        self.spread_weight, self.affinity_weight = (
            next(plugin.weight for plugin in self.plugins if plugin.name == kind.name)
            for kind in (PodTopologySpread, InterPodAffinity)
        )

    def has_filter(self, name: str) -> bool:
        """Return True if the plugin of a name filters."""
        return self.spec.filters is None or name in self.spec.filters

    def has_score(self, name: str) -> bool:
        """Return True if the plugin of a name scores."""
        return self.spec.weights is None or name in self.spec.weights

    def named(self, template: Template) -> tuple[str, ...] | None:
        """Return the only nodes that a pod names; None if it names none, or none is asked for."""
        return template.node_terms.names if self.has_filter(NodeAffinity.name) else None

    def _filters_of(
        self, plugins: Sequence[DefaultPlugin]
    ) -> tuple[Callable[[Template, NodeInfo], Status | None], ...]:
        return tuple(
            [plugin.filter for plugin in plugins if _filters(plugin) and self.has_filter(plugin.name)]
        )

    def filter_node(self, template: Template, node: NodeInfo) -> Status | None:
        """Apply the filters that read only the node's own properties."""
        for apply in self._node_filters:
            status = apply(template, node)
            if status is not None:
                return status
        return None

    def filter_room(self, template: Template, node: NodeInfo) -> Status | None:
        """Apply the filters that also read the ports and resources that are taken on the node."""
        for apply in self._room_filters:
            status = apply(template, node)
            if status is not None:
                return status
        return None

    def score_room(self, template: Template, node: NodeInfo) -> int:
        """Return the weighted sum of the scores that read the ports and resources taken on the
        node.
        """
        return sum([weight * score(template, node) for weight, score in self._room_scores])

    def may_help(self, template: Template, node: NodeInfo) -> bool:
        """Return True if a node that was added or changed is worth another attempt
        (preCheckForNode).
        """
        return (
            matches_node(template, node)
            and self._admission.filter_room(template, node) is None
            and all(t[2] != "NoSchedule" or tolerates(template.tolerations, t) for t in node.taints)
        )


def _filters(plugin: DefaultPlugin) -> bool:
    return type(plugin).filter is not DefaultPlugin.filter


def _scores(plugin: DefaultPlugin) -> bool:
    return type(plugin).score is not DefaultPlugin.score
