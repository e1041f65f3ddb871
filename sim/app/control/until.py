"""A run up to the instant at which a condition holds or an event happens.

Holds: nothing of the run depends on it; a condition that holds already is noticed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from sim.app.cluster import Cluster
from sim.check import Observer, Trigger, World
from sim.errors import InputError
from sim.scenario.schema.common import Matter


class Awaited:
    """A condition in words, or a mapping for an event, that is waited for.

    fired: called within the commit with which it comes true, once
    Raises InputError.
    """

    def __init__(self, cluster: Cluster, text: str | Mapping[str, Any], fired: Callable[[], None]) -> None:
        self.holds = False
        self._fired = fired
        self._forget: Callable[[], None] = lambda: None
        try:
            given = text if isinstance(text, str) else msgspec.convert(dict(text), Matter)
            trigger = Trigger(given, cluster.names, "", self._fire)
        except ValueError as error:
            raise InputError(str(error)) from None
        observer = Observer(World(cluster.names), [trigger])
        # A condition begins with the objects that are there; an event is what happens from now on.
        take = observer.see if trigger.tally is not None else observer.learn
        for change in cluster.present(observer.resources):
            take(change)
        if not self.holds:
            self._forget = cluster.observe(observer.see, observer.resources)

    def _fire(self) -> None:
        if not self.holds:
            self.holds = True
            self._fired()

    def forget(self) -> None:
        """Wait for it no longer."""
        forget, self._forget = self._forget, lambda: None
        forget()
