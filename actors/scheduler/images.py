"""Which nodes hold which images, and how many nodes did when each node last reported.

A node's score for an image falls with the number of nodes that lack it (`plugins.image_locality`).
That number is counted again for a node when the node reports, by a heartbeat too, and not earlier:
for some minutes the first node that pulled an image counts as the only one that holds it.

Holds: `settled` is False if a heartbeat of a node could still change the numbers recorded for it.

Mirrors  kubernetes v1.25 pkg/scheduler/internal/cache/cache.go: addNodeImageStates,
         removeNodeImageStates.
Differs  the size of an image is that in the node's own status; upstream uses the size that the
         first node reported.
"""

from __future__ import annotations

from collections.abc import Mapping

Counted = tuple[int, int]  # size in bytes, number of nodes that held it at the last report


class Images:
    """All images of all nodes. Only this class changes the mappings that it returns."""

    def __init__(self) -> None:
        self._holders: dict[str, dict[str, None]] = {}
        # The number of changes of the held images, and the nodes that were counted after the last
        # change.
        self._change = 0
        self._counted_at: dict[str, int] = {}
        self._up_to_date = 0

    @property
    def settled(self) -> bool:
        """True if a heartbeat cannot change any number."""
        return self._up_to_date == len(self._counted_at)

    def hold(self, node: str, sizes: Mapping[str, int], before: Mapping[str, Counted]) -> dict[str, Counted]:
        """Note that the node holds these images now."""
        if sizes.keys() != before.keys():
            self._remove(node, before)
            for name in sizes:
                self._holders.setdefault(name, {})[node] = None
        return self._count(node, sizes)

    def drop(self, node: str, before: Mapping[str, Counted]) -> None:
        """Record that the node was deleted."""
        if before:
            self._remove(node, before)

    def _remove(self, node: str, before: Mapping[str, Counted]) -> None:
        for name in before:
            holders = self._holders[name]
            del holders[node]
            if not holders:
                del self._holders[name]
        self._counted_at.pop(node, None)
        self._change += 1
        self._up_to_date = 0

    def count_again(self, node: str, before: dict[str, Counted]) -> dict[str, Counted]:
        """Return the node's images at a report without changes; `before` itself if no number
        changed.
        """
        if self._counted_at.get(node, self._change) == self._change:
            return before
        found = self._count(node, {name: size for name, (size, _) in before.items()})
        return before if found == before else found

    def _count(self, node: str, sizes: Mapping[str, int]) -> dict[str, Counted]:
        if sizes and self._counted_at.get(node) != self._change:
            self._counted_at[node] = self._change
            self._up_to_date += 1
        return {name: (size, len(self._holders[name])) for name, size in sizes.items()}
