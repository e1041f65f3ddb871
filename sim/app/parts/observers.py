"""Observers of commits, outside of the simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from actors.storage.memory import MemoryStore
from sim.api.scheme.scheme import Scheme
from sim.api.store import Change, Item
from sim.check.writes import CUSTOM
from sim.scenario.plan.own_kinds import resource_named
from sim.units import Virtual

DEFINITIONS = "customresourcedefinitions"
NO_INSTANT = Virtual(0)


def subscribed(
    store: MemoryStore, scheme: Scheme, see: Callable[[Change], None], resources: Sequence[str] | None
) -> Callable[[], None]:
    """Call `see` at every commit of some resources; the result ends it.

    resources: plurals, with "/NAMESPACE" for one namespace only, `CUSTOM` for those of all
        definitions; None for all
    """
    if resources is None:
        return store.subscribe("", see)
    prefixes = dict[str, None]()
    for plural, _, namespace in (text.partition("/") for text in resources):
        if plural == CUSTOM:
            continue
        resource_named(scheme, plural)  # raises InputError if there is none
        inside = f"{namespace}/" if namespace else ""
        prefixes.update((f"{r.prefix}{inside}", None) for r in scheme.resources if r.plural == plural)
    parts = [store.subscribe(prefix, see) for prefix in prefixes]

    def define(change: Change) -> None:
        if (prefix := _prefix_of(change.item)) not in prefixes:
            prefixes[prefix] = None
            parts.append(store.subscribe(prefix, see))

    if CUSTOM in resources:
        for change in present(store, scheme, [DEFINITIONS], NO_INSTANT):
            define(change)
        parts.append(store.subscribe(scheme.prefix(DEFINITIONS), define))

    def cancel() -> None:
        for part in parts:
            part()

    return cancel


def present(
    store: MemoryStore, scheme: Scheme, resources: Sequence[str], now_us: Virtual
) -> Iterator[Change]:
    """The stored objects of some resources as changes that made them, for a late observer.

    resources: as in `subscribed`
    """
    for resource in scheme.resources:
        namespaces = [
            text.partition("/")[2] for text in resources if text.partition("/")[0] == resource.plural
        ]
        if namespaces:
            for item in list(store.bucket(resource.prefix).items.values()):
                if "" in namespaces or item.key.rsplit("/", 2)[1] in namespaces:
                    yield Change(item.rev, item, None, False, now_us)
    if CUSTOM in resources:
        for definition in list(store.bucket(scheme.prefix(DEFINITIONS)).items.values()):
            for item in list(store.bucket(_prefix_of(definition)).items.values()):
                yield Change(item.rev, item, None, False, now_us)


def _prefix_of(definition: Item) -> str:
    """The prefix of the keys of the objects of a definition."""
    spec = definition.obj["spec"]
    return f"/{spec['group']}/{spec['names']['plural']}/"
