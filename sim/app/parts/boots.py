"""When the processes of a cluster start: at once, at a random instant, or once objects exist.

Holds: with a boot time of zero, all machines start in the order in which they were added; a machine
    that is added after the beginning of the run starts at once.
"""

from __future__ import annotations

from collections.abc import Callable

from sim.kernel import Actor, Kernel
from sim.units import Virtual


class Boots:
    """The processes of a cluster that have yet to start.

    boot_us: machines start at random instants within this time of the beginning of the run
    is_held: True holds what is to start until `release`
    """

    def __init__(self, kernel: Kernel, boot_us: int, *, is_held: bool) -> None:
        self._kernel, self._boot_us = kernel, boot_us
        self._held: list[tuple[Actor, Callable[[], None]]] | None = [] if is_held else None

    def add(self, actor: Actor, start: Callable[[], None]) -> None:
        """Start a process with `start` when it is due."""
        actor.to_boot = True

        def boot(_: object = None) -> None:
            actor.to_boot = False
            start()

        if self._held is not None:
            self._held.append((actor, start))
        elif not self._boot_us or self._kernel.now_us:
            boot()
        else:
            stream = self._kernel.stream(f"boot/{actor.name}")
            self._kernel.call_at(Virtual(stream.randrange(self._boot_us)), boot)

    def release(self) -> None:
        """Start what was held."""
        held, self._held = self._held, None
        for actor, start in held or ():
            self.add(actor, start)
