"""Discovery documents: the groups, versions and resources of a server.

A scheme becomes the bodies of /api, /apis, /api/v1, /apis/<group> and /apis/<group>/<version>.

Mirrors  apiserver v1.25 pkg/endpoints/discovery/*.go, kube-aggregator pkg/apiserver/handler_apis.go
         (order of /apis).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from sim.api.aggregation.delegation import (
    DEFINITION_PRIORITY,
    DEFINITION_VERSION_PRIORITY,
    Delegated,
    Listed,
    merged_groups,
)
from sim.api.schema.groups import (
    DEFAULT_VERSION_PRIORITY,
    FIRST_GROUP,
    GROUP_PRIORITIES,
    VERSION_PRIORITIES,
)
from sim.api.schema.resource import Resource
from sim.api.scheme.scheme import Scheme

Body = dict[str, Any]


def api_versions(server_address: str) -> Body:
    """/api: the legacy root."""
    address = {"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [address]}


def group_versions(scheme: Scheme) -> dict[str, list[str]]:
    """Served versions of each group but core, in the order of /apis: that of the aggregator, then
    by priority and name; custom groups are last.
    """
    fixed = fixed_versions(scheme.fixed)
    return {**fixed, **{g: v for g, v in scheme.more.served.versions.items() if g not in fixed}}


@lru_cache(maxsize=64)
def fixed_versions(scheme: Scheme) -> dict[str, list[str]]:
    """Served versions of the built-in groups."""
    found: dict[tuple[bool, int, str], dict[tuple[int, str], str]] = {}
    for r in scheme.resources:
        if r.group:
            first = r.short_group == FIRST_GROUP
            place = (not first, 0 if first else -GROUP_PRIORITIES[r.short_group], r.group)
            priority = VERSION_PRIORITIES.get((r.short_group, r.version), DEFAULT_VERSION_PRIORITY)
            found.setdefault(place, {})[-priority, r.version] = r.version
    return {
        group: [v for _, v in sorted(versions.items())] for (_, _, group), versions in sorted(found.items())
    }


def all_group_versions(scheme: Scheme, delegated: Sequence[Delegated]) -> dict[str, list[str]]:
    """As `group_versions`, with those of other APIServices.

    delegated: the APIServices that were not made for what this server serves
    """
    if not delegated:
        return group_versions(scheme)
    return merged_groups(_own_listed(scheme), delegated, scheme.names.group(FIRST_GROUP))


def _own_listed(scheme: Scheme) -> Iterator[Listed]:
    """The served group versions with the priorities of their APIServices."""
    fixed, names = fixed_versions(scheme.fixed), scheme.names
    for group, versions in group_versions(scheme).items():
        short = names.short_group(group)
        for version in versions:
            if group not in fixed:
                yield Listed(group, version, DEFINITION_PRIORITY, DEFINITION_VERSION_PRIORITY)
                continue
            priority = VERSION_PRIORITIES.get((short, version), DEFAULT_VERSION_PRIORITY)
            yield Listed(group, version, GROUP_PRIORITIES.get(short, 0), priority)


def api_group_list(scheme: Scheme, delegated: Sequence[Delegated] = ()) -> Body:
    """/apis."""
    groups = [_group(group, versions) for group, versions in all_group_versions(scheme, delegated).items()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(scheme: Scheme, group: str, delegated: Sequence[Delegated] = ()) -> Body | None:
    """/apis/<group>; None if it is not served."""
    versions = all_group_versions(scheme, delegated).get(group)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)} if versions else None


def _group(group: str, versions: list[str]) -> Body:
    entries = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": entries, "preferredVersion": entries[0]}


def custom_resource_list(scheme: Scheme, group: str, version: str) -> Body | None:
    """/apis/<group>/<version> of a group of custom resources; None if it is not served."""
    found = [
        r for r in scheme.more.served.resources if (r.group, r.version) == (group, version) and r.established
    ]
    if not found:
        return None
    rows = [row for r in found for row in _rows(r)]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}",
        "resources": rows,
    }


@lru_cache(maxsize=256)
def api_resource_list(scheme: Scheme, group: str, version: str, hashes: bool = True) -> Body | None:
    """/api/v1 (group "") or /apis/<group>/<version>; None if it is not served.

    hashes: True if StorageVersionHash is on
    """
    resources = [r for r in scheme.resources if (r.group, r.version) == (group, version)]
    if not resources:
        return None
    rows = [row for r in resources for row in _rows(r)]
    if not hashes:
        rows = [{k: v for k, v in row.items() if k != "storageVersionHash"} for row in rows]
    body: Body = {
        "kind": "APIResourceList",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": sorted(rows, key=lambda row: str(row["name"])),
    }
    # Quirk: the legacy group version answers without apiVersion.
    return {"apiVersion": "v1", **body} if group else body


def _rows(r: Resource) -> list[Body]:
    main: Body = {
        "name": r.plural,
        "singularName": r.naming.singular if r.custom else "",
        "namespaced": r.namespaced,
        "kind": r.kind,
        "verbs": list(r.listed_verbs),
    }
    if r.naming.short:
        main["shortNames"] = list(r.naming.short)
    if r.naming.categories:
        main["categories"] = list(r.naming.categories)
    if r.storage_version_hash:
        main["storageVersionHash"] = r.storage_version_hash
    rows = [main]
    for sub in r.subresources:
        row: Body = {
            "name": f"{r.plural}/{sub.name}",
            "singularName": "",
            "namespaced": r.namespaced,
            "kind": sub.kind,
            "verbs": list(sub.verbs),
        }
        if sub.version:
            row["group"], row["version"] = sub.group, sub.version
        rows.append(row)
    return rows


def root_paths(scheme: Scheme, others: Sequence[str] = (), delegated: Sequence[Delegated] = ()) -> Body:
    """/: every served path, sorted.  others: paths outside of the API"""
    paths = ["/api", "/api/v1", "/apis", "/apis/", *others]
    for group, versions in all_group_versions(scheme, delegated).items():
        paths.append(f"/apis/{group}")
        paths.extend(f"/apis/{group}/{version}" for version in versions)
    return {"paths": sorted(paths)}
