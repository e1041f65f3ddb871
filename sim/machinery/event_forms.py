"""The two forms of an Event: core/v1, in which all are stored, and events.k8s.io/v1.

Turns objects of one form into the other, and a run of a verb on the newer form into one on the store, which knows
the core form only.

Holds: nothing gets lost on the way there and back; what a verb is answered and what it writes is in the form of its
resource.

Mirrors  kubernetes v1.25 pkg/apis/events/v1/conversion.go, pkg/apis/core/v1/conversion.go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sim.machinery.api import Obj, Reply, Watch, WatchEvent
from sim.machinery.scheme import Resource
from sim.machinery.store import Answer, Item, Mismatch, Page, Put
from sim.machinery.verbs_call import Steps

# core name -> name in events.k8s.io; the others are spelled alike
_NEWER = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_CORE = {newer: core for core, newer in _NEWER.items()}
# Members that the encoding of each form never leaves out, with what stands for nothing.
_ALWAYS_CORE: Mapping[str, Any] = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
_ALWAYS_NEWER: Mapping[str, Any] = {
    "eventTime": None,
    "regarding": {},
    "deprecatedSource": {},
    "deprecatedFirstTimestamp": None,
    "deprecatedLastTimestamp": None,
}


def is_newer(resource: Resource) -> bool:
    """True for events.k8s.io, whose objects are stored in another form."""
    return resource.short_group == "events"


def _renamed(obj: Obj, names: Mapping[str, str], always: Mapping[str, Any]) -> Obj:
    out = {names.get(key, key): value for key, value in obj.items()}
    kept = {key: value for key, value in out.items() if key in always or value not in (None, "", 0, {})}
    return {**kept, **{key: value for key, value in always.items() if kept.get(key) is None}}


def to_core(obj: Obj) -> Obj:
    """An Event as it is stored."""
    return {**_renamed(obj, _CORE, _ALWAYS_CORE), "apiVersion": "v1", "kind": "Event"}


def to_newer(obj: Obj, api_version: str) -> Obj:
    """A stored Event as events.k8s.io shows it."""
    return {**_renamed(obj, _NEWER, _ALWAYS_NEWER), "apiVersion": api_version, "kind": "Event"}


def newer_item(item: Item, api_version: str) -> Item:
    return Item(item.key, to_newer(item.obj, api_version), item.rev, item.created, item.managed)


def _answer(answer: Answer, api_version: str) -> Answer:
    if isinstance(answer, Item):
        return newer_item(answer, api_version)
    if isinstance(answer, Page):
        items = [newer_item(item, api_version) for item in answer.items]
        return Page(items, answer.rev, answer.more, answer.remaining)
    if isinstance(answer, Mismatch) and answer.current is not None:
        return Mismatch(answer.key, newer_item(answer.current, api_version))
    return answer


def converted(steps: Steps, resource: Resource) -> Steps:
    """A run of a verb that sees and writes the newer form, on a store that holds the core form."""
    try:
        op = next(steps)
        while True:
            if isinstance(op, Put):
                op = Put(op.key, to_core(op.obj), op.expect, op.managed, op.cause)
            answer = yield op
            op = steps.send(_answer(answer, resource.api_version))
    except StopIteration as stop:
        reply: Reply = stop.value
        return reply


def converted_first(matches: Callable[[Obj], bool], resource: Resource) -> Callable[[Obj], bool]:
    """A predicate on the newer form as one on what is stored."""
    return lambda obj: matches(to_newer(obj, resource.api_version))


class NewerWatch:
    """A watch whose objects come in the newer form."""

    def __init__(self, watch: Watch, api_version: str) -> None:
        self._watch = watch
        self._api_version = api_version

    def attach(self, notify: Callable[[], None]) -> None:
        self._watch.attach(notify)

    def take(self, limit: int = 1000) -> list[WatchEvent]:
        return [self._converted(event) for event in self._watch.take(limit)]

    def _converted(self, event: WatchEvent) -> WatchEvent:
        if event.item is None:
            return event
        item = newer_item(event.item, self._api_version)
        return WatchEvent(event.type, item, event.revision, event.status, event.cause)

    @property
    def ended(self) -> bool:
        return self._watch.ended

    def stop(self) -> None:
        self._watch.stop()
