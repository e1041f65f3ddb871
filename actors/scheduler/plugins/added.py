"""Calls the plugins that library users add, checks what they return, and names the plugin when one
fails.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/runtime/framework.go: RunScorePlugins (limits of
         scores).
Differs  a wrong result ends the run with an error; upstream fails the scheduling attempt of the
         pod.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, TypeVar

from actors.scheduler.cluster import NodeInfo
from actors.scheduler.plugins.base import MAX_SCORE, NodeView, SchedulerPlugin, Status
from actors.scheduler.pods import PodInfo

T = TypeVar("T")


class PluginError(Exception):
    """An added scheduler plugin raised an exception or returned a wrong value; the text names the
    plugin.
    """


class AddedPlugin:
    """One plugin of a library user.

    weight: factor of its final scores
    """

    def __init__(self, plugin: SchedulerPlugin) -> None:
        self._plugin = plugin
        self.weight = plugin.weight

    def filter(self, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Return the plugin's status for the pod on the node."""
        plugin = self._plugin
        at = f"filter of {pod.key} on {node.name}"
        status = self._call(at, lambda: plugin.filter(pod.obj, NodeView(node)))
        if status is None:
            return None
        if not isinstance(status, Status) or status.plugin != plugin.name or not _is_texts(status.reasons):
            self._fail(f"{at} returned {status!r}; it must return None or self.refuse(text)")
        return status

    def score(self, pod: PodInfo, node: NodeInfo) -> int:
        """Return the plugin's score of the node before it is made final."""
        plugin = self._plugin
        at = f"score of {pod.key} on {node.name}"
        score = self._call(at, lambda: plugin.score(pod.obj, NodeView(node)))
        if not isinstance(score, int):
            self._fail(f"{at} returned {score!r}; it must return a whole number")
        return score

    def pod_key(self, pod: PodInfo) -> object:
        """Return the plugin's key of the pod; equal keys share results."""
        plugin = self._plugin
        at = f"pod_key of {pod.key}"
        key = self._call(at, lambda: plugin.pod_key(pod.obj))
        self._call(at, lambda: hash(key))
        return key

    def final_scores(self, scores: list[int]) -> list[int]:
        """Return the final scores, each from 0 to 100."""
        plugin, at = self._plugin, f"normalize of {scores}"
        final = self._call(at, lambda: list(plugin.final_scores(list(scores))))
        right = len(final) == len(scores) and all(isinstance(s, int) and 0 <= s <= MAX_SCORE for s in final)
        if not right:
            self._fail(f"{at} returned {final}; it must return as many whole numbers from 0 to {MAX_SCORE}")
        return final

    def _call(self, at: str, function: Callable[[], T]) -> T:
        try:
            return function()
        except Exception as error:
            raise PluginError(f"{self._subject} {at} raised {type(error).__name__}: {error}") from error

    def _fail(self, problem: str) -> NoReturn:
        raise PluginError(f"{self._subject} {problem}")

    @property
    def _subject(self) -> str:
        return f"scheduler plugin {self._plugin.name}:"


def _is_texts(reasons: object) -> bool:
    return isinstance(reasons, tuple) and bool(reasons) and all(isinstance(text, str) for text in reasons)
