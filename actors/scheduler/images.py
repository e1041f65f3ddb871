"""Which nodes hold which images, and how many did when each node was last heard of.

A node's score for an image falls with the nodes that lack it (`filters.image_score`).  How many hold it is counted anew
for a node when the node is heard of, by a heartbeat too, and not before: for some minutes the first that pulled an image
is taken for the only one that holds it.

Holds: `settled` says whether a heartbeat of any node could still change what is written at it.

Mirrors  kubernetes v1.25 pkg/scheduler/internal/cache/cache.go: addNodeImageStates, removeNodeImageStates.
Differs  an image is as large as the node itself says; upstream's is as large as the first node said.
"""

from __future__ import annotations

from collections.abc import Mapping

Counted = tuple[int, int]  # size in bytes, nodes that held it when this was written


class Images:
    """All images of all nodes.  What a node's own mapping says is handed out, and changed by none but this."""

    def __init__(self) -> None:
        self._holders: dict[str, dict[str, None]] = {}
        # Counts the changes of what any node holds, and the nodes that were counted after the last of them.
        self._change = 0
        self._counted_at: dict[str, int] = {}
        self._up_to_date = 0

    @property
    def settled(self) -> bool:
        return self._up_to_date == len(self._counted_at)

    def hold(self, node: str, sizes: Mapping[str, int], before: Mapping[str, Counted]) -> dict[str, Counted]:
        """The node holds these now."""
        if sizes.keys() != before.keys():
            self._let_go(node, before)
            for name in sizes:
                self._holders.setdefault(name, {})[node] = None
        return self._count(node, sizes)

    def drop(self, node: str, before: Mapping[str, Counted]) -> None:
        """The node is gone."""
        if before:
            self._let_go(node, before)

    def _let_go(self, node: str, before: Mapping[str, Counted]) -> None:
        for name in before:
            holders = self._holders[name]
            del holders[node]
            if not holders:
                del self._holders[name]
        self._counted_at.pop(node, None)
        self._change += 1
        self._up_to_date = 0

    def count_again(self, node: str, before: dict[str, Counted]) -> dict[str, Counted]:
        """What the node has when it is heard of, `before` itself where nothing is new."""
        if self._counted_at.get(node, self._change) == self._change:
            return before
        found = self._count(node, {name: size for name, (size, _) in before.items()})
        return before if found == before else found

    def _count(self, node: str, sizes: Mapping[str, int]) -> dict[str, Counted]:
        if sizes and self._counted_at.get(node) != self._change:
            self._counted_at[node] = self._change
            self._up_to_date += 1
        return {name: (size, len(self._holders[name])) for name, size in sizes.items()}
