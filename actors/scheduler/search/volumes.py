"""Applies the plugins that read the volumes of a pod to the nodes that a search has found.

Results of these plugins depend on the claims of one pod, so that no class of equal pods keeps them.
A pod without volumes has no `VolumeSearch` and costs nothing.

Holds: a node that a volume plugin refuses is excluded from the search with the status that running
all plugins in their order would give it.
"""

from __future__ import annotations

from collections.abc import Mapping

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.plugins.base import Status
from actors.scheduler.plugins.registry import Profile
from actors.scheduler.search.rows import ClassRows
from actors.scheduler.search.signature import Signature
from actors.scheduler.volumes.pod_volumes import PodVolumes


class VolumeSearch:
    """The volumes of one pod in one attempt, beside the state of its class."""

    def __init__(self, profile: Profile, volumes: PodVolumes) -> None:
        self._plugins, self.volumes = profile.volumes, volumes

    def refusal(self) -> Status | None:
        """Return why no node can take the pod, or None."""
        for plugin in self._plugins:
            status = plugin.pre_filter(self.volumes)
            if status is not None:
                return status
        return None

    def filter(self, node: NodeInfo) -> Status | None:
        """Apply the filters to one node, or to a copy of it with other pods."""
        for plugin in self._plugins:
            status = plugin.filter(self.volumes, node)
            if status is not None:
                return status
        return None

    def exclude(self, rows: ClassRows, excluded: Mapping[int, Status]) -> dict[int, Status]:
        """Return what is excluded already and every other node that passed the filters before."""
        found = dict(excluded)
        for position, row in enumerate(rows.rows):
            if isinstance(row, Signature) and position not in found:
                status = self.filter(rows.nodes[position])
                if status is not None:
                    found[position] = status
        return found

    def bonus(self, node: NodeInfo) -> int:
        """Return the weighted sum of the scores of the node."""
        return sum([plugin.weight * plugin.score(self.volumes, node) for plugin in self._plugins])
