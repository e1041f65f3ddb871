"""A run up to the instant at which a condition holds or an event happens.

Holds: nothing of the run depends on it; a condition that holds already is noticed at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from sim.app.cluster import Cluster
from sim.check import Observer, Trigger, World
from sim.errors import InputError
from sim.scenario.schema.common import Matter
from sim.units import Virtual


class Awaited:
    """A condition in words, or a mapping for an event, that is waited for.

    fired: called within the commit with which it comes true, once
    Raises InputError.
    """

    def __init__(self, cluster: Cluster, text: str | Mapping[str, Any], fired: Callable[[], None]) -> None:
        self.holds = False
        self._fired: Callable[[], None] = lambda: None
        self._forget: Callable[[], None] = lambda: None
        try:
            entry = text if isinstance(text, str) else msgspec.convert(dict(text), Matter)
            trigger = Trigger(entry, cluster.names, "", self._fire)
        except ValueError as error:
            raise InputError(str(error)) from None
        observer = Observer(World(cluster.names), [trigger])
        observer.begin(cluster.kernel.now_us)
        # A condition begins with the objects that are there; an event is what happens from now on.
        take = observer.see if trigger.tally is not None else observer.learn
        for change in cluster.present(observer.resources):
            take(change)
        # While the objects come one by one, it may hold for those that have come.
        self.holds = trigger.tally is not None and trigger.tally.holds
        self._fired = fired
        if self.holds:
            fired()
        else:
            cluster.machine_watch.watch_programs(observer)
            self._forget = cluster.observe(observer.see, observer.resources)
        self._kernel, self._observer = cluster.kernel, observer

    async def run(self, run_until: Callable[[Virtual], Awaitable[object]], end_us: int) -> None:
        """Run until it comes true, or to an instant; `fired` ends each run.

        The instants at which the cluster may have become steady are noticed without events of their
        own, since the repetition of a journal has none.
        """
        observer = self._observer
        while not self.holds:
            now_us = self._kernel.now_us
            due_us = [
                one.due_us for one in observer.monitors if one.due_us is not None and one.due_us > now_us
            ]
            stop_us = Virtual(min([end_us, *due_us]))
            await run_until(stop_us)
            if self._kernel.now_us < stop_us or stop_us >= end_us:
                break
            observer.advance(stop_us)

    def _fire(self) -> None:
        if not self.holds:
            self.holds = True
            self._fired()

    def forget(self) -> None:
        """Wait for it no longer."""
        forget, self._forget = self._forget, lambda: None
        forget()
