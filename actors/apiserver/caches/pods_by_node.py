"""The pods of one node, without a look at everybody else's.

Turns what a cache shows of all pods into lists by node, for agents that start or relist together:
thousands of them ask in turn, and each would walk over all pods.

Holds: what is answered is what a walk over the cache's page would find; the lists are made anew
when the cache shows another revision, and kept no longer than the history.

Mirrors  kubernetes v1.25 pkg/registry/core/pod/strategy.go: Indexers, NodeNameIndexFunc; upstream's
         is kept up to date.
"""

from __future__ import annotations

from sim.api.store import Item, Page
from sim.api.watch.cache import WatchCache


class ByNode:
    """Of one replica's cache of pods."""

    def __init__(self) -> None:
        self._rev = -1  # of what the lists are made from; -1: there are none
        self._found: dict[str, list[Item]] = {}

    def page(self, cache: WatchCache, prefix: str, node: str) -> Page:
        """The pods of a node below a prefix: of all, or of one namespace."""
        if prefix != cache.prefix:
            page = cache.page(prefix)
            return Page([pod for pod in page.items if _node_of(pod) == node], page.rev)
        rev = cache.revision()
        if self._rev != rev:
            self._rev, self._found = rev, {}
            for pod in cache.page(prefix).items:
                self._found.setdefault(_node_of(pod), []).append(pod)
        return Page([*self._found.get(node, ())], rev)

    def forget(self) -> None:
        """Take no memory for what nobody may ask for again."""
        self._rev, self._found = -1, {}


def _node_of(pod: Item) -> str:
    return pod.peek("spec", "nodeName") or ""
