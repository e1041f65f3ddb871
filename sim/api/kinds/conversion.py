"""Kinds that are served in several forms and stored in one.

Turns a run of a verb on another form into one on the store, which knows the stored form only: what a verb reads is
converted on the way to it, what it writes on the way back.

Holds: nothing gets lost on the way there and back; what a verb is answered and what it writes is in the form of its
resource.

Mirrors  apimachinery v1.25 pkg/runtime/serializer/versioning (decode to the storage's version, encode to the request's).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from msgspec.structs import replace

from sim.api.crd import objects as custom_objects
from sim.api.crd.served import CustomResource
from sim.api.kinds.kind import Form
from sim.api.schema.resource import Resource
from sim.api.store import Answer, Item, Mismatch, Page, Put
from sim.api.types import Obj, Reply, Watch, WatchEvent
from sim.api.verbs.call import Refusal, Steps
from sim.ident import Names


@lru_cache(maxsize=256)
def form_of(resource: Resource, names: Names) -> Form | None:
    """The form of a resource whose objects are stored in another one; None if they are stored as they are shown."""
    if isinstance(resource, CustomResource):
        return Form(partial(custom_objects.stored, resource), partial(custom_objects.shown, resource))
    if resource.form is not None:
        return resource.form(resource.api_version, names)
    if resource.lifecycle is not None:  # a deprecated version with the fields of the version that replaces it
        newer = names.api_version(resource.short_group, resource.lifecycle.replacement)
        return Form(
            lambda obj: {**obj, "apiVersion": newer},
            lambda obj: {**obj, "apiVersion": resource.api_version},
        )
    return None


def shown_item(item: Item, form: Form) -> Item:
    obj = form.shown(item.obj)
    return item if obj is item.obj else Item(item.key, obj, item.rev, item.created, item.managed)


def _answer(answer: Answer, form: Form) -> Answer:
    if isinstance(answer, Item):
        return shown_item(answer, form)
    if isinstance(answer, Page):
        items = [shown_item(item, form) for item in answer.items]
        return Page(items, answer.rev, answer.more, answer.remaining)
    if isinstance(answer, Mismatch) and answer.current is not None:
        return Mismatch(answer.key, shown_item(answer.current, form))
    return answer


def converted_reply(reply: Reply, form: Form) -> Reply:
    """What a cache has answered, in this form."""
    try:
        if reply.item is not None:
            return replace(reply, item=shown_item(reply.item, form))
        if reply.items is not None:
            return replace(reply, items=[shown_item(item, form) for item in reply.items])
    except Refusal as refusal:
        return refusal.reply()
    return reply


def converted(steps: Steps, form: Form) -> Steps:
    """A run of a verb that sees and writes this form, on a store that holds the stored one."""
    try:
        op = next(steps)
        while True:
            if isinstance(op, Put):
                op = Put(op.key, form.stored(op.obj), op.expect, op.managed, op.cause)
            answer = yield op
            op = steps.send(_answer(answer, form))
    except StopIteration as stop:
        reply: Reply = stop.value
        return reply


def converted_first(matches: Callable[[Obj], bool], form: Form) -> Callable[[Obj], bool]:
    """A predicate on this form as one on what is stored."""
    return lambda obj: matches(form.shown(obj))


class FormWatch:
    """A watch whose objects come in this form."""

    def __init__(self, watch: Watch, form: Form) -> None:
        self._watch = watch
        self._form = form

    def attach(self, notify: Callable[[], None]) -> None:
        self._watch.attach(notify)

    def take(self, limit: int = 1000) -> Sequence[WatchEvent]:
        return [self._converted(event) for event in self._watch.take(limit)]

    def _converted(self, event: WatchEvent) -> WatchEvent:
        if event.item is None:
            return event
        try:
            item = shown_item(event.item, self._form)
        except Refusal as refusal:  # a stored version that its definition knows no more
            return WatchEvent("ERROR", None, event.revision, refusal.body)
        return WatchEvent(event.type, item, event.revision, event.status, event.cause)

    @property
    def ended(self) -> bool:
        return self._watch.ended

    def stop(self) -> None:
        self._watch.stop()
