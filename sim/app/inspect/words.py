"""Questions about a cluster at an instant, in kubectl's words: `get pods`, `describe pod web-1`.

Turns words into a function that reads a cluster and returns lines. It reads the storage and not an
API server, which may be down at that instant.

Words: get, describe, queues (what controllers have to do), state (the numbers, and the faults in
    force). The leases are `get leases -A`, conditions are in `describe`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import yaml

from sim.api.kinds.tables import cells, columns
from sim.api.objects import labels_of
from sim.api.schema.resource import Resource
from sim.api.selectors import SelectorError, parse_labels
from sim.api.types import Obj
from sim.app.cluster import Cluster
from sim.app.inspect.traces import resource_named
from sim.app.process.printed import table_lines, visible
from sim.client.queue import WorkQueue
from sim.errors import InputError
from sim.units import format_duration

Look = Callable[[Cluster], list[str]]


class _Parser(argparse.ArgumentParser):
    """A parser with errors of one line."""

    def error(self, message: str) -> Any:
        raise InputError(message, self.prog, "e.g. get pods -n default, describe node node-1, queues, state")


def look_of(words: Sequence[str]) -> Look:
    """The function for some words; none mean the state.  Raises InputError."""
    parser = _Parser(prog="back", add_help=False)
    verbs = parser.add_subparsers(dest="verb", required=True, parser_class=_Parser)
    for verb in ("get", "describe"):
        one = verbs.add_parser(verb, add_help=False)
        one.add_argument("resource")
        one.add_argument("name", nargs="?", default="")
        one.add_argument("-n", "--namespace", default="")
        one.add_argument("-A", "--all-namespaces", action="store_true")
        one.add_argument("-l", "--selector", default="")
        one.add_argument("-o", "--output", default="", choices=["", "wide", "name", "json", "yaml"])
    verbs.add_parser("queues", add_help=False)
    verbs.add_parser("state", add_help=False)
    chosen = parser.parse_args(list(words) or ["state"])
    if chosen.verb == "queues":
        return _queues
    if chosen.verb == "state":
        return _state
    if chosen.verb == "describe":
        return lambda cluster: _described(cluster, chosen)
    return lambda cluster: _shown(cluster, chosen)


def _state(cluster: Cluster) -> list[str]:
    counts = cluster.counts()
    numbers = ", ".join(f"{name} {number}" for name, number in counts.items())
    active = ", ".join(cluster.do.active) or "none"
    return [
        f"at {format_duration(cluster.kernel.now_us)}: {numbers}",
        f"faults in force: {active}",
        f"events {cluster.kernel.steps}, trace {cluster.kernel.trace.sha256()}",
    ]


def _queues(cluster: Cluster) -> list[str]:
    """The keys of work queues."""
    rows = [("PROCESS", "QUEUE", "STATE", "KEY")]
    for (process, name), queue in sorted(cluster.kernel.queues.items()):
        if isinstance(queue, WorkQueue):
            rows += [(process, name, state, key) for state, keys in queue.keys.items() for key in keys]
    return [visible(line) for line in table_lines(rows)] if len(rows) > 1 else ["all work queues are empty"]


def _found(cluster: Cluster, chosen: argparse.Namespace) -> tuple[Resource, list[Obj]]:
    """The stored objects that the words select.  Raises InputError."""
    named, slash, name = chosen.resource.partition("/")
    resource = resource_named(cluster.scheme, named)
    name = name if slash else chosen.name
    try:
        selects = parse_labels(chosen.selector)
    except SelectorError as error:
        raise InputError(str(error), "-l") from None
    namespace = "" if chosen.all_namespaces else chosen.namespace or cluster.names.default_namespace
    items = cluster.storage.store.bucket(resource.prefix).items.values()
    objects = [item.obj for item in items]
    if resource.namespaced and namespace:
        objects = [obj for obj in objects if obj["metadata"].get("namespace") == namespace]
    objects = [obj for obj in objects if selects.matches(labels_of(obj))]
    if name:
        objects = [obj for obj in objects if obj["metadata"]["name"] == name]
        if not objects:
            at = format_duration(cluster.kernel.now_us)
            raise InputError(f"there was no {resource.naming.singular} {name!r} at {at}")
    return resource, sorted(objects, key=_key)


def _key(obj: Obj) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _shown(cluster: Cluster, chosen: argparse.Namespace) -> list[str]:
    resource, objects = _found(cluster, chosen)
    if chosen.output in ("json", "yaml"):
        typed = [{"apiVersion": _version(resource), "kind": resource.kind, **obj} for obj in objects]
        one = chosen.name or "/" in chosen.resource
        value = typed[0] if one else {"apiVersion": "v1", "kind": "List", "items": typed}
        if chosen.output == "json":
            return json.dumps(value, indent=4).splitlines()
        return yaml.safe_dump(value, sort_keys=False).splitlines()
    if chosen.output == "name":
        return [f"{resource.naming.singular}/{obj['metadata']['name']}" for obj in objects]
    if not objects:
        return ["No resources found"]
    now_us = cluster.kernel.epoch_us + cluster.kernel.now_us
    stored = [n for n, one in enumerate(columns(resource)) if chosen.output == "wide" or not one["priority"]]
    titles = [str(columns(resource)[number]["name"]).upper() for number in stored]
    spaces = chosen.all_namespaces and resource.namespaced
    rows = [["NAMESPACE", *titles] if spaces else titles]
    for obj in objects:
        line = cells(resource, obj, now_us, cluster.names)
        texts = ["<none>" if line[number] is None else str(line[number]) for number in stored]
        rows.append([str(obj["metadata"].get("namespace", "")), *texts] if spaces else texts)
    return [visible(line) for line in table_lines(rows)]


def _version(resource: Resource) -> str:
    return f"{resource.group}/{resource.version}" if resource.group else resource.version


def _described(cluster: Cluster, chosen: argparse.Namespace) -> list[str]:
    """Objects in full, each with the events about it."""
    resource, objects = _found(cluster, chosen)
    lines: list[str] = []
    for obj in objects:
        lines += ["---"] if lines else []
        lines += yaml.safe_dump({"kind": resource.kind, **obj}, sort_keys=False).splitlines()
        lines += ["events:", *_events(cluster, obj, resource.kind)]
    return [visible(line) for line in lines]


def _events(cluster: Cluster, obj: Obj, kind: str) -> Iterator[str]:
    items = cluster.storage.store.bucket(cluster.scheme.prefix("events")).items.values()
    metadata = obj["metadata"]
    for item in items:
        about = item.obj.get("involvedObject") or {}
        if (about.get("kind"), about.get("name")) != (kind, metadata["name"]):
            continue
        if about.get("namespace", "") not in ("", metadata.get("namespace", "")):
            continue
        at = item.obj.get("lastTimestamp") or item.obj.get("eventTime") or ""
        yield f"- {at} {item.obj.get('type', '')} {item.obj.get('reason', '')}: {item.obj.get('message', '')}"
