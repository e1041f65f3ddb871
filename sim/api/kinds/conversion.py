"""Kinds that are served in several forms and stored in one.

Turns a run of a verb on another form into one on the store, which has the stored form only: what
the verb reads is converted to its form, what it writes to the stored form.

Holds: a conversion to the other form and back loses nothing; a verb reads and writes the form of
its resource; objects of other kinds, such as the quotas that a write charges, are not converted.

Mirrors  apimachinery v1.25 pkg/runtime/serializer/versioning (decode to the storage's version,
         encode to the request's).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from msgspec.structs import replace

from sim.api.crd import objects as custom_objects
from sim.api.crd.served import CustomResource
from sim.api.refusals import Refusal, Steps
from sim.api.schema.kind import Form
from sim.api.schema.resource import Resource
from sim.api.store import Answer, Item, Mismatch, Page, Put
from sim.api.types import Obj, Reply, ServedWatch, WatchEvent
from sim.ident import Names


@lru_cache(maxsize=256)
def form_of(resource: Resource, names: Names) -> Form | None:
    """The form of a resource that is stored in another form; None if the stored form
    is the shown one.
    """
    if isinstance(resource, CustomResource):
        prepare = partial(custom_objects.prepared, resource) if resource.webhook else None
        return Form(
            partial(custom_objects.stored, resource), partial(custom_objects.shown, resource), prepare
        )
    if resource.form is not None:
        return resource.form(resource.api_version, names)
    if (
        resource.lifecycle is not None and resource.lifecycle.replacement
    ):  # its fields are those of the version that replaces it
        newer = names.api_version(resource.short_group, resource.lifecycle.replacement)
        return Form(
            lambda obj: {**obj, "apiVersion": newer},
            lambda obj: {**obj, "apiVersion": resource.api_version},
        )
    return None


def shown_item(item: Item, form: Form) -> Item:
    """The item with its object in this form."""
    obj = form.shown(item.obj)
    return item if obj is item.obj else Item(item.key, obj, item.rev, item.created, item.managed)


def _answer(answer: Answer, form: Form, prefix: str) -> Answer:
    if isinstance(answer, Item):
        return shown_item(answer, form) if answer.key.startswith(prefix) else answer
    if isinstance(answer, Page):
        items = [shown_item(item, form) if item.key.startswith(prefix) else item for item in answer.items]
        return Page(items, answer.rev, answer.more, answer.remaining)
    if isinstance(answer, Mismatch) and answer.current is not None and answer.key.startswith(prefix):
        return Mismatch(answer.key, shown_item(answer.current, form))
    return answer


def _objects(answer: Answer, prefix: str) -> list[Obj]:
    """The objects of a kind in an answer of the store."""
    items: Sequence[Item | None] = ()
    if isinstance(answer, Item):
        items = (answer,)
    elif isinstance(answer, Page):
        items = answer.items
    elif isinstance(answer, Mismatch):
        items = (answer.current,)
    return [item.obj for item in items if item is not None and item.key.startswith(prefix)]


def converted_reply(reply: Reply, form: Form) -> Reply:
    """The reply of a cache, in this form."""
    try:
        if reply.item is not None:
            return replace(reply, item=shown_item(reply.item, form))
        if reply.items is not None:
            return replace(reply, items=[shown_item(item, form) for item in reply.items])
    except Refusal as refusal:
        return refusal.reply()
    return reply


def converted(steps: Steps, form: Form, prefix: str) -> Steps:
    """A run of a verb on objects in this form, for a store that holds the stored form.

    prefix: of the keys of these objects
    """
    try:
        op = next(steps)
        while True:
            if isinstance(op, Put) and op.key.startswith(prefix):
                store = form.stored
                if form.prepare is not None:
                    store = yield from form.prepare((op.obj,), True)
                op = Put(op.key, store(op.obj), op.expect, op.managed, op.cause)
            answer = yield op
            shown = form
            if form.prepare is not None:
                shown = Form(form.stored, (yield from form.prepare(_objects(answer, prefix), False)))
            op = steps.send(_answer(answer, shown, prefix))
    except StopIteration as stop:
        reply: Reply = stop.value
        return reply


def converted_first(matches: Callable[[Obj], bool], form: Form) -> Callable[[Obj], bool]:
    """A predicate on this form, as a predicate on the stored form."""
    return lambda obj: matches(form.shown(obj))


class FormWatch:
    """A watch that delivers objects in this form."""

    def __init__(self, watch: ServedWatch, form: Form) -> None:
        self._watch = watch
        self._form = form

    def attach(self, notify: Callable[[], None]) -> None:
        """See `Watch.attach`."""
        self._watch.attach(notify)

    def take(self, limit: int = 1000) -> Sequence[WatchEvent]:
        """See `Watch.take`."""
        return [self._converted(event) for event in self._watch.take(limit)]

    def _converted(self, event: WatchEvent) -> WatchEvent:
        if event.item is None:
            return event
        try:
            item = shown_item(event.item, self._form)
        except Refusal as refusal:  # its definition does not have the stored version any more
            return WatchEvent("ERROR", None, event.revision, refusal.body)
        return WatchEvent(event.type, item, event.revision, event.status, event.cause)

    @property
    def ended(self) -> bool:
        """See `Watch.ended`."""
        return self._watch.ended

    def observe_end(self, on_end: Callable[[], object]) -> None:
        """See `ServedWatch.observe_end`."""
        self._watch.observe_end(on_end)

    def stop(self) -> None:
        """See `Watch.stop`."""
        self._watch.stop()
