"""What the network of a machine knows of the cluster: its Services, their endpoints, and its nodes.

Turns the lists and watches of an API server into the objects from which names and addresses are
resolved.

Holds: what the credentials of the machine may not read is not known; a namespace is known by its
Services.

Mirrors  kubernetes v1.25 pkg/proxy/config/config.go (what a proxy watches).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from actors.storage import MemoryStore
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj, UserInfo
from sim.client.cache.informer import Informers
from sim.client.client import Client
from sim.kernel import Context
from sim.wire.rest.transport import RestTransport

OF_AGENT = ("services", "nodes")  # what the role of nodes allows
OF_PROXY = (*OF_AGENT, "endpointslices")


def follow_services(
    ctx: Context, scheme: Scheme, transport: RestTransport, store: MemoryStore, resources: Sequence[str]
) -> None:
    """Keep a store as the API server has these resources."""
    client = Client(ctx, scheme, [transport], UserInfo("proxy"), agent="proxy")
    informers = Informers(ctx, client)
    entry = Known(scheme, store)
    for resource in resources:
        keep = partial(entry.keep, resource)
        informers[resource].on(
            add=keep, update=partial(_newest, keep), delete=partial(entry.forget, resource)
        )
    informers.start()


def _newest(keep: Callable[[Obj], None], _: Obj, obj: Obj) -> None:
    """Keep what an update has made."""
    keep(obj)


class Known:
    """The objects of a store."""

    def __init__(self, scheme: Scheme, store: MemoryStore) -> None:
        self._scheme, self._store = scheme, store

    def _key(self, resource: str, obj: Obj) -> str:
        meta = obj["metadata"]
        return self._scheme.key(resource, meta.get("namespace", ""), meta["name"])

    def keep(self, resource: str, obj: Obj) -> None:
        """Take the present state of an object."""
        self._store.put(self._key(resource, obj), {**obj, "metadata": {**obj["metadata"]}}, None)
        if resource == "services":
            namespace = {"metadata": {"name": obj["metadata"]["namespace"]}}
            self._store.put(self._key("namespaces", namespace), namespace, None)

    def forget(self, resource: str, obj: Obj) -> None:
        """An object is gone."""
        self._store.delete(self._key(resource, obj), None)
