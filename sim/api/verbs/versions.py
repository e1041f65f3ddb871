"""The other versions of a kind, for ownership entries that were written in them.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/handlers/fieldmanager/versionconverter.go.
Differs  where a webhook would have to convert, entries are read in the version of the request.
"""

from __future__ import annotations

from functools import partial

from sim.api.crd.served import CustomResource
from sim.api.kinds.conversion import form_of
from sim.api.ownership.managed import Registered, Version, Versions
from sim.api.types import Obj
from sim.api.verbs.call import Call


def versions_of(call: Call) -> Versions | None:
    """The versions of the call's kind; None if all have the same fields."""
    resource = call.resource
    if isinstance(resource, CustomResource):
        differs = not resource.webhook
    else:
        differs = resource.behavior.owned_across_versions
    return partial(_version, call) if differs else None


def registered_in(call: Call) -> Registered:
    """True for the apiVersions in which the call's kind exists."""

    def registered(api_version: str) -> bool:
        group, _, version = api_version.rpartition("/")
        return call.registry.scheme.find(group, version, call.resource.plural) is not None

    return registered


def as_stored(call: Call, obj: Obj) -> Obj:
    """An object of a dry run, as it would be read from the store.

    Quirk: defaults of fields that the request may not set, such as the status, are set again.
    """
    form = form_of(call.resource, call.registry.names)
    if form is None or form.prepare is not None or not call.resource.custom:
        return obj
    return form.shown(form.stored(obj))


def _version(call: Call, api_version: str) -> Version | None:
    group, _, version = api_version.rpartition("/")
    names = call.registry.names
    other = call.registry.scheme.find(group, version, call.resource.plural)
    if other is None:
        return None
    if isinstance(other, CustomResource):
        # Here a conversion changes the name of the version only, and removes no field.
        return Version(other.schema, lambda obj: {**obj, "apiVersion": api_version})
    here, there = form_of(call.resource, names), form_of(other, names)

    def shown(obj: Obj) -> Obj:
        stored = obj if here is None else here.stored(obj)
        return stored if there is None else there.shown(stored)

    return Version(other.schema, shown)
