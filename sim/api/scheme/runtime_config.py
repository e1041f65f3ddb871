"""The kinds that a server serves: --runtime-config.

Pairs of key and value become the set of resources that are turned off.

Holds: a setting of a resource overrides one of its version, and that overrides one of all versions;
       none turns off the group of the aggregator, which upstream serves by itself.

Mirrors  kubernetes v1.25 apiserver pkg/server/options/api_enablement.go,
         pkg/server/resourceconfig/helpers.go, kubernetes cmd/kube-apiserver/app/aggregator.go.
Differs  informers of turned-off resources stay empty, where upstream's fail and block the
         components that wait for them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from sim.api.kinds.registry import ROWS
from sim.api.schema.groups import FIRST_GROUP
from sim.ident import Names

Key = tuple[str, str, str]  # group, version, plural
TRUE, FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")
# Versions that are registered in v1.25 and have no resource that is served.
_EMPTY = {
    ("admissionregistration", "v1beta1"),
    ("apiextensions", "v1beta1"),
    ("apps", "v1beta1"),
    ("apps", "v1beta2"),
    ("authentication", "v1beta1"),
    ("authorization", "v1beta1"),
    ("autoscaling", "v2beta1"),
    ("batch", "v1beta1"),
    ("certificates", "v1beta1"),
    ("coordination", "v1beta1"),
    ("discovery", "v1beta1"),
    ("events", "v1beta1"),
    ("extensions", "v1beta1"),
    ("flowcontrol", "v1alpha1"),
    ("networking", "v1beta1"),
    ("node", "v1alpha1"),
    ("node", "v1beta1"),
    ("policy", "v1beta1"),
    ("rbac", "v1alpha1"),
    ("rbac", "v1beta1"),
    ("scheduling", "v1alpha1"),
    ("scheduling", "v1beta1"),
    ("storage", "v1alpha1"),
}
# In order of precedence.
_ALL = {
    "api/all": re.compile(".*"),
    "api/ga": re.compile(r"v\d+"),
    "api/beta": re.compile(r"v\d+beta\d+"),
    "api/alpha": re.compile(r"v\d+alpha\d+"),
}


@lru_cache(maxsize=4)
def off_by_default(names: Names) -> frozenset[Key]:
    """The resources that are served only where an option turns them on: those of alpha versions."""
    return turned_off({}, names)


def turned_off(config: Mapping[str, str], names: Names) -> frozenset[Key]:
    """The resources that are not served; raises ValueError in upstream's words."""
    on: dict[Key, bool] = {
        (names.group(row.group), row.version, row.plural): not _ALL["api/alpha"].fullmatch(row.version)
        for row in ROWS
    }
    if dict(config) == {"api/all": "false"}:
        raise ValueError("invalid key with only api/all=false")
    for key, pattern in _ALL.items():
        if key in config:
            if config[key] not in ("true", "false"):
                raise ValueError(f"invalid value {key}={config[key]}")
            on |= {row: config[key] == "true" for row in on if pattern.fullmatch(row[1])}
    unserved = {(names.group(group), version) for group, version in _EMPTY}
    named = [key for key in config if key not in _ALL]
    for key in sorted(named, key=lambda key: len(_parts(key))):
        group, version, plural = (*_parts(key), "")[:3]
        wanted = _boolean(key, config[key])
        if (group, version) in unserved:
            continue
        if not any(row[0] == group for row in on):
            raise ValueError(f"unknown api groups {group}")
        if not any(row[:2] == (group, version) for row in on):
            raise ValueError(f"group version {group}/{version} that has not been registered")
        if plural and (group, version, plural) not in on:
            raise ValueError(f"runtime-config invalid key {key}")
        on |= {row: wanted for row in on if row[:2] == (group, version) and plural in ("", row[2])}
    kept = names.group(FIRST_GROUP)
    return frozenset(row for row, served in on.items() if not served and row[0] != kept)


def _parts(key: str) -> tuple[str, ...]:
    """Group, version and optionally resource. The core group is "" or absent."""
    parts = tuple(key.split("/"))
    if len(parts) == 1 and parts[0] == "v1":
        return "", "v1"
    if len(parts) not in (2, 3) or not parts[1]:
        raise ValueError(f"runtime-config invalid key {key}")
    return parts


def _boolean(key: str, value: str) -> bool:
    if value not in (*TRUE, *FALSE, ""):
        raise ValueError(f"invalid value {key}={value}")
    return value not in FALSE
