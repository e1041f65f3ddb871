"""Custom resources: the resources that CustomResourceDefinitions add to the served ones.

Each served version of a stored definition becomes a `CustomResource`; a set of definitions becomes
`Served`, the look-ups by URL, name and kind that a `Scheme` uses after its own table.

Holds: the resources of a definition are made once per definition object, so that identity is
equality here too; definitions are in the order of their names; a malformed definition, which may
not have been validated, serves nothing. A kind is served while NamesAccepted=True, and listed in
discovery while Established=True.

Mirrors  apiextensions-apiserver v1.25 pkg/apiserver/customresource_handler.go
         (getOrCreateServingInfoFor), customresource_discovery_controller.go.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from dataclasses import field
from functools import cached_property
from hashlib import sha256
from itertools import count
from typing import Any, NamedTuple

import msgspec

from sim.api.crd import strategy as custom_kinds
from sim.api.crd.structural import Structural, ownership_node, structural
from sim.api.crd.versions import version_order
from sim.api.memo import IdentityMemo
from sim.api.schema.field_schemas import SchemaNode
from sim.api.schema.resource import CUSTOM, CUSTOM_WITH_STATUS, Naming, Resource, Subresource
from sim.api.store import Change, Item, Managed
from sim.api.types import Json, Obj, WatchEvent
from sim.dataclass import dataclass

# In upstream's order of discovery, which differs from that of other kinds.
VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
ENDING_VERBS = ("delete", "deletecollection", "get", "list", "watch")
SUB_VERBS = ("get", "patch", "update")
_EMPTY: Obj = {}


class Scale(NamedTuple):
    """The JSON paths of a scale, such as ".spec.replicas"; selector: "" if there is none."""

    replicas: str
    status_replicas: str
    selector: str


class Column(NamedTuple):
    """A column of the table kubectl prints."""

    name: str
    type: str
    path: str
    format: str = ""
    description: str = ""
    priority: int = 0


DEMANDING = 64 * 1024  # bytes of a definition


@dataclass(frozen=True, eq=False)
class CustomResource(Resource):
    """One served version of a definition.

    schemas: of every version, by its name
    stored: the version in which objects are stored
    warning: for clients of a deprecated version, "" otherwise
    terminating: True if the definition is being deleted
    established: True if discovery lists it
    webhook: the URL of its conversion webhook, "" if versions differ by name only
    definition: the definition object
    reviews: numbers the reviews that its conversion webhook gets
    """

    schemas: Any = None
    stored: str = ""
    scale: Scale | None = None
    columns: tuple[Column, ...] = ()
    warning: str = ""
    terminating: bool = False
    established: bool = True
    webhook: str = ""
    definition: Any = None
    reviews: Iterator[int] = field(default_factory=count, repr=False)

    @property
    def listed_verbs(self) -> tuple[str, ...]:
        """See `Resource.listed_verbs`."""
        return ENDING_VERBS if self.terminating else VERBS

    @property
    def structure(self) -> Structural:
        """The compiled schema of this version."""
        found: Structural = self.schemas[self.version]
        return found

    @cached_property
    def has_rules(self) -> bool:
        """Return True if the schema has validation rules."""
        return self.structure.has_rules()

    @cached_property
    def is_demanding(self) -> bool:
        """Return True if a small object can make much work: by rules, or by the size of the schema."""
        return self.has_rules or len(msgspec.json.encode(self.definition)) > DEMANDING

    @cached_property
    def schema(self) -> SchemaNode:
        """The schema for field ownership."""
        return ownership_node(self.structure)

    def lost_version(self, managed: tuple[Managed, ...]) -> str:
        """A version in ownership entries that the definition no longer has; "" if there is none."""
        written = [entry.api_version for entry in managed]
        return next((text for text in written if text.rpartition("/")[2] not in self.schemas), "")


_made: IdentityMemo[tuple[CustomResource, ...]] = IdentityMemo()


def resources_of(definition: Obj) -> tuple[CustomResource, ...]:
    """The resources that a definition serves, in the order of its versions."""
    found = _made.get(definition)
    if found is None:
        found = _made.put(_resources(definition), definition)
    return found


def _resources(definition: Obj) -> tuple[CustomResource, ...]:
    spec, status = _map(definition, "spec"), _map(definition, "status")
    true = [c.get("type") for c in _maps(status, "conditions") if c.get("status") == "True"]
    names = _map(status, "acceptedNames")
    if not names.get("plural") or not names.get("kind"):
        names = _map(spec, "names")
    group, plural, kind = (
        _text(part, key) for part, key in ((spec, "group"), (names, "plural"), (names, "kind"))
    )
    versions = [version for version in _maps(spec, "versions") if _text(version, "name")]
    if not ({"NamesAccepted", "Established"} & set(map(str, true))) or not (group and plural and kind):
        return ()
    if definition["metadata"].get("name") != f"{plural}.{group}":
        return ()
    stored = next((_text(v, "name") for v in versions if v.get("storage") is True), "")
    schemas = {_text(v, "name"): structural(_map(v, "schema").get("openAPIV3Schema")) for v in versions}
    hashed = sha256(f"{group}/{stored}/{kind}".encode()).digest()[:8]
    return tuple(
        CustomResource(
            group=group,
            version=_text(version, "name"),
            plural=plural,
            kind=kind,
            naming=Naming(
                _text(names, "singular") or kind.lower(),
                _text(names, "listKind") or f"{kind}List",
                _texts(names, "shortNames"),
                _texts(names, "categories"),
            ),
            namespaced=spec.get("scope") != "Cluster",
            verbs=VERBS,
            subresources=_subresources(version, kind),
            short_group=group,
            upstream_group=group,
            api_version=f"{group}/{_text(version, 'name')}",
            group_resource=f"{plural}.{group}",
            prefix=f"/{group}/{plural}/",
            storage_version_hash=b64encode(hashed).decode(),
            json_only=True,
            custom=True,
            rule=CUSTOM_WITH_STATUS if _has_status(version) else CUSTOM,
            behavior=custom_kinds.CUSTOM_WITH_STATUS if _has_status(version) else custom_kinds.CUSTOM,
            schemas=schemas,
            stored=stored,
            scale=_scale(version),
            columns=_columns(version),
            warning=_warning(version, versions, group, kind),
            terminating="Terminating" in true,
            established="Established" in true,
            webhook=_webhook(spec),
            definition=definition,
        )
        for version in versions
        if version.get("served") is True
    )


def _has_status(version: Obj) -> bool:
    return _map(version, "subresources").get("status") is not None


def _subresources(version: Obj, kind: str) -> tuple[Subresource, ...]:
    found = []
    if _has_status(version):
        found.append(Subresource("status", kind, SUB_VERBS))
    if _scale(version) is not None:
        found.append(Subresource("scale", "Scale", SUB_VERBS, "autoscaling", "v1"))
    return tuple(found)


def _scale(version: Obj) -> Scale | None:
    given = _map(version, "subresources").get("scale")
    if not isinstance(given, dict):
        return None
    return Scale(
        _text(given, "specReplicasPath"),
        _text(given, "statusReplicasPath"),
        _text(given, "labelSelectorPath"),
    )


def _columns(version: Obj) -> tuple[Column, ...]:
    found = []
    for column in _maps(version, "additionalPrinterColumns"):
        path = _text(column, "jsonPath")
        default_description = f"Custom resource definition column (in JSONPath format): {path}"
        priority = column.get("priority")
        found.append(
            Column(
                _text(column, "name"),
                _text(column, "type"),
                path,
                _text(column, "format"),
                _text(column, "description") or default_description,
                priority if isinstance(priority, int) else 0,
            )
        )
    return tuple(found)


def _warning(version: Obj, versions: list[Obj], group: str, kind: str) -> str:
    """The warning for clients of a deprecated version, which names the best one that is not."""
    if version.get("deprecated") is not True:
        return ""
    given = _text(version, "deprecationWarning")
    if given:
        return given
    name = _text(version, "name")
    served = [_text(one, "name") for one in versions if one.get("served") and not one.get("deprecated")]
    better = [one for one in served if version_order(one) < version_order(name)]
    instead = f"; use {group}/{min(better, key=version_order)} {kind}" if better else ""
    return f"{group}/{name} {kind} is deprecated{instead}"


def _webhook(spec: Obj) -> str:
    """The URL of the conversion webhook; "" if there is none."""
    conversion = _map(spec, "conversion")
    if conversion.get("strategy") != "Webhook":
        return ""
    client = _map(_map(conversion, "webhook"), "clientConfig")
    service = _map(client, "service")
    if not service:
        return _text(client, "url") or "?"
    path = _text(service, "path").removeprefix("/")
    return f"https://{_text(service, 'name')}.{_text(service, 'namespace')}.svc:{service.get('port', 443)}/{path}"


# --- sets of them ---------------------------------------------------------------------------------


class Served:
    """The resources of a set of definitions. `versions`: of each group, preferred first, as
    discovery lists them.
    """

    def __init__(self, definitions: Iterable[Obj] = ()) -> None:
        self.definitions = tuple(definitions)
        self.resources = tuple(r for definition in self.definitions for r in resources_of(definition))
        self._by_path: dict[tuple[str, str, str], CustomResource] = {}
        self._by_name: dict[str, CustomResource] = {}
        self._by_kind: dict[tuple[str, str], CustomResource] = {}
        versions: dict[str, dict[str, None]] = {}
        for r in self.resources:
            self._by_path[r.group, r.version, r.plural] = r
            self._by_kind.setdefault((r.api_version, r.kind), r)
            if r.established:
                versions.setdefault(r.group, {})[r.version] = None
        for r in sorted(self.resources, key=lambda r: version_order(r.version)):
            for text in (r.group_resource, r.plural):
                self._by_name.setdefault(text, r)
        self.versions = {group: sorted(versions[group], key=version_order) for group in sorted(versions)}

    def find(self, group: str, version: str, plural: str) -> CustomResource | None:
        """The resource that a URL names; None if there is none."""
        return self._by_path.get((group, version, plural))

    def named(self, text: str) -> CustomResource | None:
        """The preferred version of a resource, by "widgets.example.com" or the plural alone."""
        return self._by_name.get(text)

    def by_kind(self, api_version: str, kind: str) -> CustomResource | None:
        """The resource of a kind; None if there is none."""
        return self._by_kind.get((api_version, kind))

    def preferred(self) -> list[CustomResource]:
        """Each established kind once, in its group's preferred version."""
        found = {
            r.prefix: r for r in self.resources if r.established and self._by_name[r.group_resource] is r
        }
        return list(found.values())


class Latest:
    """`Scheme.more` of the stored definitions, for clients that know a cluster's types
    beforehand.
    """

    def __init__(self) -> None:
        self._found: dict[str, Obj] = {}
        self._served: Served | None = None

    def see(self, change: Change) -> None:
        """Takes a change of a definition."""
        self._served = None
        if change.deleted:
            self._found.pop(change.item.key, None)
        else:
            self._found[change.item.key] = change.item.obj

    def add(self, items: Iterable[Item], *, whole: bool) -> None:
        """Takes listed definitions.  whole: True if there are no others"""
        self._served = None
        found = {item.key: item.obj for item in items}
        self._found = found if whole else self._found | found

    def take(self, event: WatchEvent) -> None:
        """Takes an event of a watch of definitions."""
        self._served = None
        if event.item is not None and event.type == "DELETED":
            self._found.pop(event.item.key, None)
        elif event.item is not None:
            self._found[event.item.key] = event.item.obj

    @property
    def served(self) -> Served:
        """The resources of the present definitions."""
        if self._served is None:
            self._served = Served(self._found[key] for key in sorted(self._found))
        return self._served


# --- reading definitions that may not have been validated
# ------------------------------------------


def _map(value: Obj, key: str) -> Obj:
    found = value.get(key)
    return found if isinstance(found, dict) else _EMPTY


def _maps(value: Obj, key: str) -> list[Obj]:
    found = value.get(key)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _text(value: Obj, key: str) -> str:
    found: Json = value.get(key)
    return found if isinstance(found, str) else ""


def _texts(value: Obj, key: str) -> tuple[str, ...]:
    found = value.get(key)
    return tuple([text for text in found if isinstance(text, str)]) if isinstance(found, list) else ()
