"""The resources that other servers answer, as controllers discover them.

Turns APIServices into the resources of their servers, by one request for each group version.

Mirrors  client-go v1.25 discovery/discovery_client.go (ServerPreferredResources: the group versions
         with an unavailable server are left out, and named in an error).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from sim.api.aggregation.availability import is_available
from sim.api.aggregation.delegation import Delegated, delegated_of
from sim.api.aggregation.requests import in_order, served
from sim.api.schema.resource import Resource
from sim.api.types import Obj, Reply, Request
from sim.client import Client


def delegated_among(api_services: Iterable[Obj]) -> list[Delegated]:
    """The APIServices that other servers answer, the preferred version of a group first."""
    return in_order(each for obj in api_services if (each := delegated_of(obj)) is not None)


async def discover(
    client: Client, found: Iterable[Delegated], known: Collection[str], all_versions: bool = False
) -> tuple[list[Resource], list[str]]:
    """The resources of these group versions, as `resources_in` finds them in their documents."""
    documents = [(each, await read_document(client, each)) for each in found]
    return resources_in(documents, known, all_versions)


async def read_document(client: Client, delegated: Delegated) -> Reply:
    """Read the document of a group version, or fail without a request if its server is unavailable."""
    if not is_available(delegated.obj):
        return Reply(0, lost="unavailable")
    request = Request(
        verb="get",
        resource="",
        group=delegated.group,
        version=delegated.version,
        user=client.user,
        manager=client.manager,
    )
    return await client.ask(request)


def resources_in(
    documents: Iterable[tuple[Delegated, Reply]], known: Collection[str], all_versions: bool = False
) -> tuple[list[Resource], list[str]]:
    """The resources in their preferred versions, and the group versions that cannot be read.

    known: resources that this cluster serves itself ("deployments.apps"), which are left out
    all_versions: True for the other versions as well, after the preferred one
    """
    seen, resources, failing = set(known), list[Resource](), list[str]()
    for each, reply in documents:
        if not reply.ok or not isinstance(reply.body, dict):  # Go's decoder takes no other value
            failing.append(each.group_version)
            continue
        for resource in served(each, reply.body):
            if resource.group_resource not in seen:
                resources.append(resource)
                if not all_versions:
                    seen.add(resource.group_resource)
    return resources, failing
