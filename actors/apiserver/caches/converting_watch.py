"""A watch of custom resources in a version to which a webhook converts them.

The events of a watch on the stored version become the same events in the requested version, once
the webhook has answered.

Holds: events keep their order; while one batch is converted, later events wait in the watch below.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/watch.go (the embedded encoder converts).
Differs  labels are selected as they are stored, not as the webhook gives them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence

from sim.api.kinds.conversion import shown_item
from sim.api.refusals import Refusal
from sim.api.schema.kind import Form
from sim.api.store import Answer, Consult, Consulted, Op
from sim.api.types import Obj, ServedWatch, WatchEvent

Consulting = Callable[[Consult, Callable[[Consulted], None]], None]
BATCH = 100  # events that are converted before they are passed on
Conversion = Generator[Op, Answer, Callable[[Obj], Obj]]


class ConvertingWatch:
    """See the module."""

    def __init__(self, watch: ServedWatch, form: Form, consult: Consulting) -> None:
        self._watch, self._form, self._consult = watch, form, consult
        self._ready: deque[WatchEvent] = deque()
        self._busy = self._stopped = False
        self._notify: Callable[[], None] = _ignore

    def attach(self, notify: Callable[[], None]) -> None:
        """See `Watch.attach`."""
        self._notify = notify
        self._watch.attach(self._next)

    def take(self, limit: int = 1000) -> Sequence[WatchEvent]:
        """See `Watch.take`."""
        taken = [self._ready.popleft() for _ in range(min(limit, len(self._ready)))]
        self._next()
        return taken

    def _next(self) -> None:
        """Convert the next batch, unless one is being converted."""
        if self._busy or self._stopped:
            return
        events = list(self._watch.take(BATCH))
        if not events:
            if self._watch.ended:
                self._notify()
            return
        self._busy = True
        prepare = self._form.prepare
        assert prepare is not None
        steps = prepare([event.item.obj for event in events if event.item is not None], False)
        self._advance(events, steps, None)

    def _advance(self, events: list[WatchEvent], steps: Conversion, answer: Consulted | None) -> None:
        """Go on with the conversion of a batch."""
        try:
            op = steps.send(answer)
        except StopIteration as stop:
            self._pass_on(events, stop.value)
        except Refusal as refusal:
            self._fail(events, refusal)
        else:
            assert isinstance(op, Consult)
            self._consult(op, lambda said: self._advance(events, steps, said))

    def _pass_on(self, events: list[WatchEvent], shown: Callable[[Obj], Obj]) -> None:
        form = Form(self._form.stored, shown)
        for event in events:
            if event.item is not None:
                item = shown_item(event.item, form)
                event = WatchEvent(event.type, item, event.revision, event.status, event.cause)
            self._ready.append(event)
        self._done()

    def _fail(self, events: list[WatchEvent], refusal: Refusal) -> None:
        self._ready.append(WatchEvent("ERROR", None, events[-1].revision, refusal.body))
        self._done()

    def _done(self) -> None:
        self._busy = False
        if not self._stopped:
            self._notify()
            self._next()

    @property
    def ended(self) -> bool:
        """See `Watch.ended`."""
        return self._watch.ended and not (self._busy or self._ready)

    def observe_end(self, on_end: Callable[[], object]) -> None:
        """See `ServedWatch.observe_end`."""
        self._watch.observe_end(on_end)

    def stop(self) -> None:
        """See `Watch.stop`."""
        self._stopped = True
        self._watch.stop()


def _ignore() -> None:
    return None
