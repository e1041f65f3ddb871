"""Conditions about what is no object: a steady cluster, leases that are led, programs on machines,
requests of users.

A condition of such a kind names a resource that the API does not have. For each of them the
observer has a monitor, which turns what happens into changes of objects of that resource; tallies
and expectations take these as they take commits.
"""

from __future__ import annotations

from sim.check.monitors.base import Emit, Monitor
from sim.check.monitors.led import RESOURCE, Led
from sim.check.monitors.programs import CONTAINERS, PROGRAMS, Programs
from sim.check.monitors.quiet import PREFIX, Quiet
from sim.check.monitors.requests import REQUESTS, Requests
from sim.ident import Names

__all__ = ["Monitor", "is_monitored", "monitor_of", "stored_key"]


def is_monitored(resource: str) -> bool:
    """True if a resource is one of those that the API does not have."""
    return resource in (PROGRAMS, CONTAINERS, REQUESTS) or resource.startswith((RESOURCE, PREFIX))


def stored_key(key: str) -> str:
    """The key in the storage of what a monitor reports about; "" if there is none, and the same key
    for an ordinary object.
    """
    resource, _, name = key.removeprefix("//").partition("//")
    if not key.startswith("//") or not is_monitored(resource):
        return key
    if resource.startswith(RESOURCE):
        return name
    kind = "services" if resource == REQUESTS else "pods"
    return "" if resource.startswith(PREFIX) else f"//{kind}/{name.partition('@')[0]}"


def monitor_of(resource: str, emit: Emit, names: Names) -> Monitor:
    """The monitor of such a resource."""
    if resource.startswith(PREFIX):
        return Quiet(resource, emit, names)
    if resource.startswith(RESOURCE):
        return Led(resource, emit)
    return Requests(resource, emit) if resource == REQUESTS else Programs(resource, emit)
