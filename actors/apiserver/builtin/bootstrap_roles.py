"""The roles and bindings of the bootstrap policy, created and topped up when an API server starts.

Everything about a new object that does not depend on the time is computed once per naming set and
shared by all servers and clusters of this process.

Holds: an object that is up to date is not written.

Mirrors  kubernetes v1.25 pkg/registry/rbac/rest/storage_rbac.go (EnsureRBACPolicy).
"""

from __future__ import annotations

from typing import NamedTuple

from actors.apiserver.builtin.bootstrap import derived_uid, prepared
from actors.apiserver.ports import LocalStore
from sim.api.auth.bootstrap_policy.policy import GATES, bootstrap_policy
from sim.api.auth.bootstrap_policy.reconcile import reconcile
from sim.api.kinds.strategies import for_create, for_update
from sim.api.ownership import managed as ownership
from sim.api.schema.resource import Resource
from sim.api.store import Delete, Item, Managed
from sim.api.types import Obj
from sim.api.verbs.call import Registry
from sim.units import SECOND, format_time


class _Template(NamedTuple):
    """A new object without its uid and its time.

    plural: its resource
    key: its storage key
    expected: the object in the policy
    obj: the object to store
    owners: its field owners, at the time 0
    """

    plural: str
    key: str
    expected: Obj
    obj: Obj
    owners: tuple[Managed, ...]


# By naming set, and the gates with rules of their own that are on.
_templates: dict[tuple[tuple[str, tuple[str, ...]], bool], list[_Template]] = {}


def bootstrap_roles(registry: Registry, store: LocalStore) -> None:
    """Create the roles and bindings that are missing, and add to others what they lack."""
    chosen = registry.names.naming, tuple(gate for gate in GATES if gate in registry.gates)
    templates = _templates.get((chosen, registry.tracks))
    if templates is None:
        templates = _templates[chosen, registry.tracks] = [
            _template(registry, plural, expected) for plural, expected in bootstrap_policy(*chosen).objects()
        ]
    now_us = registry.wall_us()
    created, time_s = format_time(now_us), now_us // SECOND
    owners: dict[int, tuple[Managed, ...]] = {}  # shared by objects with the same fields
    for template in templates:
        item = store.get(template.key)
        if item is not None:
            _top_up(registry, store, template, item)
            continue
        fields = id(template.owners[0].fields) if registry.tracks else 0
        if fields not in owners:
            owners[fields] = _at(template.owners, time_s)
        _create(store, template, created, owners[fields])


def _create(store: LocalStore, template: _Template, created: str, owners: tuple[Managed, ...]) -> None:
    metadata = {
        **template.obj["metadata"],
        "uid": derived_uid(template.key, store.revision),
        "creationTimestamp": created,
    }
    store.put(template.key, {**template.obj, "metadata": metadata}, 0, owners)


def _template(registry: Registry, plural: str, expected: Obj) -> _Template:
    resource, metadata = registry.scheme.resource(plural), expected["metadata"]
    key = registry.scheme.key(resource, metadata.get("namespace", ""), metadata["name"])
    obj = prepared(resource, registry, expected)
    owners = ownership.on_create(resource.schema, obj, _writer(registry, resource, 0))
    return _Template(plural, key, expected, for_create(resource, obj, registry.names), owners)


def _writer(registry: Registry, resource: Resource, time_s: int) -> ownership.Writer:
    manager = registry.names.component("apiserver")
    return ownership.Writer(manager, resource.api_version, time_s, tracks=registry.tracks)


def _at(owners: tuple[Managed, ...], time_s: int) -> tuple[Managed, ...]:
    return tuple(
        Managed(entry.manager, entry.operation, entry.api_version, time_s, entry.fields) for entry in owners
    )


def _top_up(registry: Registry, store: LocalStore, template: _Template, item: Item) -> None:
    result = reconcile(item.obj, template.expected, registry.names)
    if result is None:
        return
    time_s = registry.wall_us() // SECOND
    if result.anew:
        store.apply(Delete(template.key, item.rev))
        _create(store, template, format_time(registry.wall_us()), _at(template.owners, time_s))
        return
    resource = registry.scheme.resource(template.plural)
    writer = _writer(registry, resource, time_s)
    made = for_update(resource, result.obj, item.obj, registry.names)
    owners = ownership.on_update(resource.schema, item.managed, item.obj, made, writer)
    # The store stamps the revision into the metadata, so they must not be those of the old object.
    store.put(template.key, {**made, "metadata": dict(made["metadata"])}, item.rev, owners)
