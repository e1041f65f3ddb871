"""In which versions an API server of v1.25 stores and reads the objects of each fixed resource.

Turns a naming set into a table, in the order in which a server registers its resources.

Mirrors  kubernetes v1.25 apiserver pkg/endpoints/installer.go (registerResourceHandlers:
         ResourceInfo), pkg/storageversion/{manager,updater}.go; the versions are those that a
         server with the gates StorageVersionAPI and APIServerIdentity registers.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from sim.api.types import Obj
from sim.ident import Names

# Lines of group, versions that can be read and resources.
_TABLE = Path(__file__).with_name("encodings.txt")
EQUAL = "AllEncodingVersionsEqual"


class Encoding(NamedTuple):
    """How one resource is stored.

    group: its API group, "" for the core group
    decodable: the versions that a server can read, as in `apiVersion`
    """

    group: str
    plural: str
    version: str
    decodable: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name of its StorageVersion."""
        return f"{self.group or 'core'}.{self.plural}"

    @property
    def shown(self) -> str:
        """The resource as messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


def encodings(names: Names) -> list[Encoding]:
    """Every resource that is stored, by group and name."""
    found = []
    for line in _TABLE.read_text(encoding="utf-8").splitlines()[1:]:
        short, versions, plurals = line.split("|")
        group = names.group(short)
        read = [_versioned(names, group, each.removesuffix("*")) for each in versions.split()]
        marked = next((i for i, each in enumerate(versions.split()) if each.endswith("*")), 0)
        found += [Encoding(group, plural, read[marked], tuple(read)) for plural in plurals.split()]
    return sorted(found, key=lambda each: (each.group, each.plural))


def _versioned(names: Names, group: str, version: str) -> str:
    if version == "events":  # the other group of that resource
        return f"{names.group('events')}/v1"
    return f"{group}/{version}" if group else version


# --- StorageVersion objects -----------------------------------------------------------------------


def registered(found: Obj, server: str, encoding: Encoding, now_text: str) -> Obj:
    """The StorageVersion with what a server stores; the same object if it says that already."""
    mine = {
        "apiServerID": server,
        "encodingVersion": encoding.version,
        "decodableVersions": list(encoding.decodable),
    }
    listed = list((found.get("status") or {}).get("storageVersions") or ())
    at = next((i for i, each in enumerate(listed) if each["apiServerID"] == server), len(listed))
    return with_servers(found, [*listed[:at], mine, *listed[at + 1 :]], now_text)


def without_servers(found: Obj, gone: tuple[str, ...], now_text: str) -> Obj | None:
    """The StorageVersion without some servers; None if no server is left."""
    listed = (found.get("status") or {}).get("storageVersions") or ()
    left = [each for each in listed if each["apiServerID"] not in gone]
    return with_servers(found, left, now_text) if left else None


def with_servers(found: Obj, servers: list[Obj], now_text: str) -> Obj:
    """The StorageVersion with these servers, the version on which they agree, and its condition."""
    status = found.get("status") or {}
    before, versions = status.get("commonEncodingVersion"), {each["encodingVersion"] for each in servers}
    common = servers[0]["encodingVersion"] if len(versions) == 1 else None
    made = {key: value for key, value in status.items() if key != "commonEncodingVersion"}
    if common is not None:
        made["commonEncodingVersion"] = common
    moved = before is not None and common is not None and before != common
    conditions = [_condition(status, common is not None, moved, now_text)]
    others = [each for each in status.get("conditions") or () if each["type"] != EQUAL]
    status_of_all = {**made, "storageVersions": servers, "conditions": [*others, *conditions]}
    return found if status_of_all == status else {**found, "status": status_of_all}


def _condition(status: Obj, is_set: bool, moved: bool, now_text: str) -> Obj:
    old = next((each for each in status.get("conditions") or () if each["type"] == EQUAL), None)
    state = "True" if is_set else "False"
    kept = old is not None and old["status"] == state and not moved
    return {
        "type": EQUAL,
        "status": state,
        "lastTransitionTime": old["lastTransitionTime"] if kept and old is not None else now_text,
        "reason": "CommonEncodingVersionSet" if is_set else "CommonEncodingVersionUnset",
        "message": "Common encoding version set" if is_set else "Common encoding version unset",
    }
