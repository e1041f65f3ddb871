"""Whether what processes remember of the storage is what it holds: the end of a run compares them.

Turns the informers of all processes and the storage into the objects of which an informer has an
old state, none, or one that is gone. Heartbeats, which are delivered late, are left out, and so is
what was written in the last time; so are processes that a fault hinders, and all of them while a
fault of an API server, of the storage or of a link to them is in force.

Holds: a process that runs on is changed, since its informers receive what they have not read; so it
    is done only when a run has ended.
"""

from __future__ import annotations

from collections.abc import Iterator

from sim.api.objects import labels_of
from sim.api.selectors import parse_fields, parse_labels
from sim.api.store import Compacted, Item
from sim.app.cluster import Cluster
from sim.check.writes import HISTORY, changed_fields
from sim.client.cache.informer import Informer
from sim.kernel import State
from sim.units import Virtual


def diverged(cluster: Cluster, within_us: int) -> dict[str, str]:
    """What the informers have wrong, in words, by key of the object."""
    hosts = ("storage", *cluster.api_servers)
    if any(cluster.faults.is_faulty(host) for host in hosts):
        return {}
    wrong: dict[str, str] = {}
    for name, actor in cluster.supervisor.actors.items():
        context = actor.context
        if context is None or context.state is not State.RUNNING or cluster.faults.is_faulty(name):
            continue
        for informer in context.views:
            for key, text in _of_informer(cluster, informer, within_us):
                wrong.setdefault(key, f"{name} {text}")
    return wrong


def _of_informer(cluster: Cluster, informer: Informer, within_us: int) -> Iterator[tuple[str, str]]:
    """The objects that one informer has wrong."""
    resource = cluster.scheme.named(informer.resource)  # None for one that is not served any more
    if resource is None or not informer.synced or resource.plural in HISTORY:
        return
    store, prefix = cluster.storage.store, resource.prefix
    reached = store.revision_at(Virtual(max(0, cluster.kernel.now_us - within_us)))
    labels = parse_labels(informer.selection.labels)
    fields = parse_fields(resource, informer.selection.fields)
    current: dict[str, Item] = informer.items()
    for item in list(store.bucket(prefix).items.values()):
        selected = item.key.startswith(prefix + informer.selection.namespace)
        selected = selected and labels.matches(labels_of(item.obj)) and fields.matches(item.obj)
        entry = current.pop(item.key, None)
        if not selected or item.rev > reached:
            continue
        if entry is None:
            yield item.key, "does not know of it"
        elif entry.rev < item.rev and changed_fields(entry.obj, item.obj):  # but by heartbeats
            yield item.key, f"has its revision {entry.rev}, and not {item.rev}"
    changes = store.events(reached, prefix)
    late = {} if isinstance(changes, Compacted) else {change.item.key: None for change in changes}
    for key in current:
        if key not in late and store.get(key) is None:
            yield key, "still has it"
