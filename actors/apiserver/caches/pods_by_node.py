"""The pods of one node, without a scan of all pods.

Turns what a cache shows of all pods into lists by node, for node agents that start or relist
together: thousands of them send a list in turn, and each would scan all pods.

Holds: a list is what a scan of the cache's page would find.  The lists are rebuilt when the cache
shows another revision, and kept no longer than the history.

Mirrors  kubernetes v1.25 pkg/registry/core/pod/strategy.go: Indexers, NodeNameIndexFunc; upstream
         updates its index with each change.
"""

from __future__ import annotations

from sim.api.store import Item, Page
from sim.api.watch.cache import WatchCache


class ByNode:
    """The index of one replica's cache of pods."""

    def __init__(self) -> None:
        self._rev = -1  # the revision of the lists; -1: there are none
        self._found: dict[str, list[Item]] = {}

    def page(self, cache: WatchCache, prefix: str, node: str) -> Page:
        """Return the pods of a node below a prefix: all, or those of one namespace."""
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
        """Free the memory of the lists."""
        self._rev, self._found = -1, {}


def _node_of(pod: Item) -> str:
    return pod.peek("spec", "nodeName") or ""
