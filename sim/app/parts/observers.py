"""Observers of commits, outside of the simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from actors.storage.memory import MemoryStore
from sim.api.scheme.scheme import Scheme
from sim.api.store import Change
from sim.scenario.plan.own_kinds import resource_named
from sim.units import Virtual


def subscribed(
    store: MemoryStore, scheme: Scheme, see: Callable[[Change], None], resources: Sequence[str] | None
) -> Callable[[], None]:
    """Call `see` at every commit of some resources; the result ends it.

    resources: plurals, with "/NAMESPACE" for one namespace only; None for all
    """
    if resources is None:
        return store.subscribe("", see)
    prefixes = dict[str, None]()
    for plural, _, namespace in (text.partition("/") for text in resources):
        resource_named(scheme, plural)  # raises InputError if there is none
        inside = f"{namespace}/" if namespace else ""
        prefixes.update((f"{r.prefix}{inside}", None) for r in scheme.resources if r.plural == plural)
    parts = [store.subscribe(prefix, see) for prefix in prefixes]

    def cancel() -> None:
        for part in parts:
            part()

    return cancel


def present(
    store: MemoryStore, scheme: Scheme, resources: Sequence[str], now_us: Virtual
) -> Iterator[Change]:
    """The stored objects of some resources as changes that made them, for a late observer."""
    for resource in scheme.resources:
        if resource.plural in resources:
            for item in list(store.bucket(resource.prefix).items.values()):
                yield Change(item.rev, item, None, False, now_us)
