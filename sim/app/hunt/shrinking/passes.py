"""The passes of shrinking: what of a scenario is made less, in the order in which it pays.

Each pass takes a document and offers smaller ones (`documents.Pass`).  What shortens a run comes
first, since each later candidate then costs less.

Holds: a candidate differs from a scenario that a user could have written only by what is left out
       or rounded; the caller refuses one that does not compile, because a name in it is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from sim.app.hunt.shrinking.documents import Doc, Pass, entries, items, value_at, with_value, without
from sim.app.hunt.shrinking.lists import fewer
from sim.app.hunt.shrinking.numbers import duration_of, rounder, roundness, shorter, smaller, text_of
from sim.scenario.read.source import Path_

TIMELINE, EXPECT, OBJECTS = ("spec", "timeline"), ("spec", "expect"), ("spec", "objects")
DURATION, SEED = ("spec", "duration"), ("spec", "seed")
NODES = ("spec", "cluster", "nodes")
COMPONENTS = ("apiServer", "controllerManager", "scheduler")
COUNTS = ("replicas", "parallelism", "completions", "pick", "count", "times")
PROTECTING = ("PodDisruptionBudget",)
NAMED = ("apiVersion", "kind", "name", "namespace")
ENDS = ("for", "restartAfter", "until")  # without one, what a step does lasts for ever


def expectations(document: Doc) -> Pass:
    """Leave out the expectations that are not needed for the failure."""
    return _elements(document, EXPECT)


def steps(document: Doc) -> Pass:
    """Leave out steps, faults and actions alike."""
    return _elements(document, TIMELINE)


def objects(document: Doc) -> Pass:
    """Leave out objects, but not what protects others: without it the failure would be another."""
    places = [index for index, each in enumerate(items(document, *OBJECTS)) if not _protects(each)]
    return _keys(document, [(*OBJECTS, index) for index in places])


def _protects(obj: object) -> bool:
    return isinstance(obj, Mapping) and obj.get("kind") in PROTECTING


def node_groups(document: Doc) -> Pass:
    """Leave out groups of nodes, and zones of the others."""
    yield from _elements(document, NODES)


def zones(document: Doc) -> Pass:
    """Leave out zones of groups of nodes."""
    for index in range(len(items(document, *NODES))):
        document = yield from _followed(document, partial(_elements, path=(*NODES, index, "zones")))


def nodes(document: Doc) -> Pass:
    """Have fewer nodes in each group."""
    for index in range(len(items(document, *NODES))):
        document = yield from _numbers(document, (*NODES, index, "count"), 1, _with_nodes)


def _with_nodes(document: Doc, path: Path_, count: int) -> Doc:
    """The document with another number of nodes in a group, of which each may have a name."""
    names = value_at(document, (*path[:-1], "names"))
    if isinstance(names, list):
        document = with_value(document, (*path[:-1], "names"), names[:count])
    changed: Doc = with_value(document, path, count)
    return changed


def replicas(document: Doc) -> Pass:
    """Have fewer replicas of workloads and of components, and smaller numbers in steps and of the
    order of arrivals.
    """
    document = yield from _numbers(document, ("spec", "cluster", "arrivals", "order"), 0)
    for part in COMPONENTS:
        document = yield from _numbers(document, ("spec", "cluster", part, "replicas"), 1)
    for top in (OBJECTS, TIMELINE):
        paths = [path for path, _ in entries(value_at(document, top), top) if path[-1] in COUNTS]
        for path in paths:
            document = yield from _numbers(document, path, 1)


def run(document: Doc) -> Pass:
    """End the run sooner."""
    length_us = duration_of(value_at(document, DURATION))
    yield from _lengths(document, DURATION, length_us, shorter)


def gaps(document: Doc) -> Pass:
    """Wait less before each step; those after it, and the end of the run, come sooner by as much."""
    for index in range(len(items(document, *TIMELINE))):
        document = yield from _followed(document, partial(_gap, index=index))


def _gap(document: Doc, index: int) -> Pass:
    """Wait less before one step."""
    while True:
        starts = [duration_of(step.get("at")) for step in items(document, *TIMELINE)]
        at_us, length_us = starts[index], duration_of(value_at(document, DURATION))
        if at_us is None or length_us is None:
            return
        gap_us = at_us - max((each for each in starts if each is not None and each < at_us), default=0)
        offers = shorter(gap_us)
        later = [each is not None and each >= at_us for each in starts]
        sooner = [_sooner(document, later, gap_us - each) for each in offers]
        candidates = [each for each in sooner if _roundness(each) <= _roundness(document)]
        hit = (yield candidates) if candidates else None
        if hit is None:
            return
        document = candidates[hit]


def _sooner(document: Doc, steps_later: Sequence[bool], by_us: int) -> Doc:
    """The document with some of its steps, and the end of the run, sooner by a time."""
    paths = [(*TIMELINE, index, "at") for index, later in enumerate(steps_later) if later]
    for path in (*paths, DURATION):
        document = with_value(document, path, text_of((duration_of(value_at(document, path)) or 0) - by_us))
    return document


def _roundness(document: Doc) -> int:
    """How many digits the instants of the steps and the end of the run have: 0 for whole minutes."""
    ends = [value_at(document, DURATION), *(step.get("at") for step in items(document, *TIMELINE))]
    return sum(roundness(us) for each in ends if (us := duration_of(each)) is not None)


def lengths(document: Doc) -> Pass:
    """Let faults last shorter, and steps repeat and follow each other sooner."""
    for path, text in _times(document):
        document = yield from _followed_length(document, path, text, shorter)


def times(document: Doc) -> Pass:
    """Have rounder instants and durations of steps, and a rounder end of the run."""
    starts = [
        ((*TIMELINE, index, "at"), step.get("at")) for index, step in enumerate(items(document, *TIMELINE))
    ]
    for path, text in [*starts, *_times(document), (DURATION, value_at(document, DURATION))]:
        document = yield from _followed_length(document, path, text, rounder)


def options(document: Doc) -> Pass:
    """Leave out options of the cluster, the nodes and the steps, which have defaults; a fault that
    ends is less than one without an end.
    """
    cluster = value_at(document, ("spec", "cluster")) or {}
    paths: list[Path_] = [("metadata", "description")]
    for path, _ in entries(cluster, ("spec", "cluster")):
        if path[2] != "nodes" or (len(path) > 4 and path[4] != "count"):
            paths.append(path)
    for path, _ in entries(value_at(document, TIMELINE), TIMELINE):
        if len(path) > 3 and path[3] not in ("at", "name") and path[-1] not in ENDS:
            paths.append(path)
    yield from _keys(document, paths)


def fields(document: Doc) -> Pass:
    """Leave out fields of objects."""
    paths = [path for path, _ in entries(value_at(document, OBJECTS), OBJECTS) if path[-1] not in NAMED]
    free = [path for path in paths if len(path) > 3 and not _protects(value_at(document, path[:3]))]
    yield from _keys(document, free)


def seed(document: Doc) -> Pass:
    """Take one of the first seeds; 0 needs no line."""
    number = value_at(document, SEED)
    if isinstance(number, int):
        others = [with_value(document, SEED, each) for each in (1, 2) if each < number]
        yield [without(document, [SEED]), *others]


PASSES: Mapping[str, Callable[[Doc], Pass]] = {
    "expectations": expectations,
    "run": run,
    "steps": steps,
    "objects": objects,
    "groups": node_groups,
    "nodes": nodes,
    "zones": zones,
    "gaps": gaps,
    "replicas": replicas,
    "options": options,
    "lengths": lengths,
    "times": times,
    "fields": fields,
    "seed": seed,
}


# --- parts of passes ------------------------------------------------------------------------------


def _elements(document: Doc, path: Path_) -> Pass:
    """Leave out elements of the list at a path."""
    whole = value_at(document, path)
    if isinstance(whole, list):
        yield from fewer(whole, lambda rest: with_value(document, path, list(rest)))


def _keys(document: Doc, paths: Sequence[Path_]) -> Pass:
    """Leave out the values at some of the paths."""
    yield from fewer(paths, lambda rest: without(document, [each for each in paths if each not in set(rest)]))


def _followed(document: Doc, begin: Callable[[Doc], Pass]) -> Any:
    """Go through a pass; returns the document after it."""
    offers, hit = begin(document), None
    try:
        while True:
            candidates = offers.send(hit)
            hit = yield candidates
            if hit is not None:
                document = candidates[hit]
    except StopIteration:
        return document


def _numbers(
    document: Doc, path: Path_, least: int, change: Callable[[Doc, Path_, int], Doc] = with_value
) -> Any:
    """Make the number at a path smaller; returns the document after it."""
    while type(value := value_at(document, path)) is int and value > least:
        candidates = [change(document, path, each) for each in smaller(value, least)]
        hit = yield candidates
        if hit is None:
            break
        document = candidates[hit]
    return document


def _lengths(document: Doc, path: Path_, us: int | None, better: Callable[[int], list[int]]) -> Pass:
    """Offer better durations at a path, as long as there are some."""
    while us is not None and (offers := better(us)):
        hit = yield [with_value(document, path, each) for each in map(text_of, offers)]
        us = None if hit is None else offers[hit]


def _followed_length(document: Doc, path: Path_, text: object, better: Callable[[int], list[int]]) -> Any:
    return _followed(document, lambda at: _lengths(at, path, duration_of(text), better))


def _times(document: Doc) -> Iterator[tuple[Path_, Any]]:
    """The durations of steps and of their parameters, with their paths; not their instants."""
    for path, value in entries(value_at(document, TIMELINE), TIMELINE):
        if path[3:] not in ((), ("at",), ("name",)) and duration_of(value) is not None:
            yield path, value
