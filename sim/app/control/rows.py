"""The rows that viewers are shown: their members, and the states of processes and links.

A row is a tuple: its kind, its instant in virtual microseconds, and the members that `ROWS` names.
A served cluster makes rows of commits (`changes`), `orrery show --page` of a trace; both take the
words for states from here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sim.kernel import Rule

ROWS = {
    "node": ("name", "zone", "state"),  # state "" when it is removed
    "pod": ("namespace/name", "node", "state", "workload"),
    "workload": ("kind namespace/name", "available", "wanted"),  # wanted null when it is removed
    # The instant at which the holder before had renewed last, and for how long a renewal is good.
    "leader": ("namespace/lease", "holder", "renewed before", "lasts"),
    "process": ("name", "state"),
    "link": ("one – other", "state"),
    "requests": ("since", "[client, code, number] of each"),
    "event": ("type", "reason", "kind/namespace/name", "message", "count"),
    "step": ("name", "kind", "begin or end"),
}
Row = tuple[Any, ...]
RUNNING, PAUSED, SLOW, DOWN, ENDING = "running", "paused", "slow", "down", "ending"
# Kinds of record of a process that say how it runs; others that are no hindrance end it.
_RUNS = {"start": RUNNING, "resume": RUNNING, "pause": PAUSED, "slow": SLOW, "terminate": ENDING}
_HINDRANCES = ("frozen", "lag", "lost-quorum", "overload", "slow-disk")
_END = "end of "


class Processes:
    """How each process runs, from the records of the kind "actor"."""

    def __init__(self) -> None:
        self._runs: dict[str, str] = {}
        self._hindrances: dict[str, dict[str, None]] = {}

    def state(self, name: str) -> str:
        """How a process runs: "running", or what is wrong with it; "down" before its start."""
        runs = self._runs.get(name, DOWN)
        return runs if runs != RUNNING else ", ".join(self._hindrances.get(name, ())) or RUNNING

    def see(self, what: str, name: str) -> None:
        """Take a record."""
        hindrance = what.removeprefix(_END)
        if hindrance not in _HINDRANCES:
            self._runs[name] = _RUNS.get(what, DOWN)
        elif hindrance == what:
            self._hindrances.setdefault(name, {})[what] = None
        else:
            self._hindrances.get(name, {}).pop(hindrance, None)


def link_name(one: str, other: str) -> str:
    """The name of the link between two groups of hosts."""
    return f"{one} – {other}"


def link_state(one: Collection[str], other: Collection[str], rules: Iterable[Rule]) -> str:
    """How messages pass between two groups of hosts: "open", or the worst that rules do to them."""
    result: dict[str, set[str]] = {}
    for rule in rules:
        if rule.sources is None and rule.targets is None:  # how the whole network is
            continue
        word = "cut" if rule.cut else "lossy" if rule.loss else "slow" if rule.high_us else "doubled"
        for ahead, behind in ((rule.sources, rule.targets), (rule.targets, rule.sources)):
            if _meets(behind, other):
                touched = one if ahead is None else ahead.intersection(one)
                result.setdefault(word, set()).update(touched)
    for word in ("cut", "lossy", "slow", "doubled"):
        if result.get(word):
            return word if len(result[word]) == len(one) else f"partly {word}"
    return "open"


def _meets(hosts: frozenset[str] | None, others: Collection[str]) -> bool:
    return hosts is None or not hosts.isdisjoint(others)


def workload_counts(resource: str, obj: Mapping[str, Any]) -> tuple[int, int]:
    """How many pods of a workload are available, and how many are wanted."""
    status = obj.get("status") or {}
    if resource == "daemonsets":
        return status.get("numberAvailable") or 0, status.get("desiredNumberScheduled") or 0
    target = (obj.get("spec") or {}).get("replicas")
    return status.get("availableReplicas") or 0, 1 if target is None else target
