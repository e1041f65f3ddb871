"""What a program waits for: a time, or something that becomes ready.

Holds: a `Source` calls each of its watchers once when it becomes ready, in the order in which they
were added; to be called again, it adds itself again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from sim.dataclass import dataclass


class Source:
    """Something that a process can wait for: bytes, room, the end of a child, an answer.

    ready: True if a process that waits for it can continue
    """

    __slots__ = ("_watchers", "ready")

    def __init__(self, *, ready: bool = False) -> None:
        self.ready = ready
        self._watchers: dict[Callable[[], None], None] = {}

    def set(self) -> None:
        """It is ready from now on."""
        self.ready = True
        watchers, self._watchers = self._watchers, {}
        for watcher in watchers:
            watcher()

    def clear(self) -> None:
        """It is not ready until `set` is called again."""
        self.ready = False

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call the watcher once when this becomes ready."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """Do not call the watcher."""
        self._watchers.pop(watcher, None)


@dataclass(frozen=True, slots=True)
class Wait:
    """A program cannot go on before one of these things.

    sources: the process continues when one of them is ready
    until_us: it continues at this instant of virtual time at the latest; None: no limit
    deaf: True if a signal that the process has caught does not end the wait, as a shell waits for a
        command in the foreground
    """

    sources: tuple[Source, ...] = ()
    until_us: int | None = None
    deaf: bool = False


# The process can go on at once; others have their turn first.  A loop yields it in each turn.
PAUSE = Wait(until_us=0)

# A program, or a part of it that returns a value.
Main = Generator[Wait, None, int]
