"""The resource `requests to services`: whether the last request of each client was answered.

Turns the requests of users that have ended into an object for each client, which is a step
`request`, with the metadata of its Service.
"""

from __future__ import annotations

from typing import Any

from sim.api.store import Change
from sim.api.types import Obj
from sim.check.monitors.base import Emit, Monitor
from sim.units import SECOND

REQUESTS = "requests"


class Requests(Monitor):
    """Reports whether requests of users are answered."""

    wait_us = SECOND
    needs_clients = True

    def __init__(self, resource: str, emit: Emit) -> None:
        super().__init__(resource, emit)
        self._services: dict[str, Obj] = {}
        self._answered: dict[str, bool] = {}  # by client and Service

    def sources(self) -> frozenset[str]:
        """The Services, for their labels."""
        return frozenset(("services",))

    def see(self, resource: str, change: Change) -> None:
        """Take a commit of a Service."""
        self._services[change.item.key] = change.item.obj

    def request(self, request: Any, at_us: int) -> None:
        """A request of a user has ended."""
        _, _, place = request.service.partition("//services/")
        name = f"{place}@{request.client}"
        if self._answered.get(name) is not request.answered:
            self._answered[name] = request.answered
            namespace, _, service = place.partition("/")
            entry = self._services.get(request.service, {})
            meta = {**entry.get("metadata", {}), "namespace": namespace, "name": service}
            self._put(name, {"metadata": meta, "answered": request.answered}, at_us)

    def advance(self, at_us: int) -> None:
        """Has no effect: an outcome is seen when it is there."""
