"""The handlers of an informer: which of them an event concerns, and when heartbeats need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Generic, TypeVar

from sim.api.types import Obj

Handler = TypeVar("Handler", bound=Callable[..., None])
EVERYBODY = ""  # routing value: the object concerns every handler


def unmoved(old: Obj, new: Obj) -> None:
    """The `beat` handler of a client that ignores updates of heartbeat timestamps alone."""


class Heartbeats(Enum):
    """When a handler of heartbeats has to be called."""

    PROMPT = "at once"
    ON_READ = "by the next read; at once while `urge` requests it"
    IF_URGED = "only while `urge` requests it"


class ByValue(dict[str, Sequence[Handler]]):
    """The handlers that an event of an object with a routing value concerns, found when they are
    asked for.

    all: every handler with its routing value, in order of registration
    """

    __slots__ = ("all",)

    def __init__(self) -> None:
        super().__init__()
        self.all: list[tuple[str, Handler]] = []

    def __missing__(self, value: str) -> Sequence[Handler]:
        wanted = (value, EVERYBODY)
        found = self[value] = [
            handler for about, handler in self.all if value == EVERYBODY or about in wanted
        ]
        return found


class Handlers(Generic[Handler]):
    """Handlers in order of registration: all of them, or those for one routing value."""

    __slots__ = ("of",)

    def __init__(self) -> None:
        self.of: ByValue[Handler] = ByValue()

    @property
    def none(self) -> bool:
        """True if no handler is registered."""
        return not self.of.all

    def add(self, handler: Handler, about: str) -> None:
        """Register a handler for the routing value `about` (`EVERYBODY`: for all objects)."""
        self.of.all.append((about, handler))
        self.of.clear()


class HandlersByEvent:
    """The handlers of an informer, and the routing of objects to them.

    route: computes an object's routing value; None: every object concerns every handler
    route_part: the field of the metadata that it reads
    """

    __slots__ = ("add", "beat", "delete", "route", "route_part", "update")

    def __init__(self) -> None:
        self.add: Handlers[Callable[[Obj], None]] = Handlers()
        self.update: Handlers[Callable[[Obj, Obj], None]] = Handlers()
        self.beat: Handlers[Callable[[Obj, Obj], None]] = Handlers()
        self.delete: Handlers[Callable[[Obj], None]] = Handlers()
        self.route: Callable[[Obj], str] | None = None
        self.route_part = ""

    def value_of(self, obj: Obj) -> str:
        """The routing value of an object."""
        return EVERYBODY if self.route is None else self.route(obj)


class HeartbeatNeeds:
    """When the handlers of heartbeats have to be called.

    prompt: True if a handler needs each heartbeat at once, or if there is no fast path
    on_read: True if a handler accepts heartbeats by the next read
    urged: late handlers that need heartbeats promptly for now
    is_disturbed: True if a state has changed, so that late heartbeats may be missed
    """

    __slots__ = ("is_disturbed", "on_read", "prompt", "urged")

    def __init__(self, may_wait: bool) -> None:
        self.prompt = not may_wait
        self.on_read = False
        self.urged: dict[str, None] = {}
        self.is_disturbed = False

    def add(self, heartbeats: Heartbeats) -> None:
        """Take in the need of a new handler."""
        self.prompt = self.prompt or heartbeats is Heartbeats.PROMPT
        self.on_read = self.on_read or heartbeats is Heartbeats.ON_READ

    def require_prompt(self, who: str, is_needed: bool) -> bool:
        """Note if a late handler needs heartbeats promptly; False if that is known."""
        if is_needed == (who in self.urged):
            return False
        if is_needed:
            self.urged[who] = None
        else:
            del self.urged[who]
        return True

    def may_wait(self) -> bool:
        """True if no heartbeat is needed at once."""
        return not (self.prompt or self.urged or self.is_disturbed)
