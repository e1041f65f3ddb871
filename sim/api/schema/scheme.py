"""The kinds of one naming set: look-ups by resource, kind and URL, and the keys of the store.

Turns the rows of `kinds` and the names of a cluster into `Resource`s.

Holds: one `Resource` object per group, version and plural, shared by everybody, so identity is equality.
A resource whose objects live in another group (events.k8s.io in core) has that group's keys.

Mirrors  kubernetes v1.25 pkg/api/legacyscheme, pkg/kubeapiserver/default_storage_factory_builder.go.
Differs  keys are `/<group>/<resource>/<namespace>/<name>` for every kind; upstream's prefixes differ per resource
         (`/registry/services/specs/`, `/registry/minions/`), which no client can see.
"""

from __future__ import annotations

import copy
from base64 import b64encode
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Any, Protocol, Self

from sim.api.kinds.table import DEPRECATED, ROWS, UNSERVED, VERBS, Lifecycle, Row
from sim.api.schema.field_schemas import SchemaNode, schema_of_kind
from sim.ident import Names

# `Resource.rule` of custom resources, without and with /status; no plural has a space.
CUSTOM, CUSTOM_WITH_STATUS = "custom resources", "custom resources with status"


@dataclass(frozen=True, slots=True)
class Subresource:
    """group and version are "" unless discovery states them (autoscaling/v1 Scale under apps)."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


@dataclass(frozen=True, eq=False)
class Resource:
    """One served resource.  Compared and hashed by identity.

    group, version: as served, in this naming set; short_group: without domain ("discovery", "", "apps")
    api_version: "apps/v1"; group_resource: "deployments.apps", as error messages name it
    prefix: of all its keys in the store
    storage_version_hash: "" where there is nothing stored (bindings)
    json_only: it is not served in protobuf
    rule: key into the tables of what kinds do: the plural; custom resources have one of their own, whatever their plural
    custom: made by a definition: a `custom.CustomResource`
    """

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    list_kind: str
    namespaced: bool
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    verbs: tuple[str, ...]
    subresources: tuple[Subresource, ...]
    short_group: str
    upstream_group: str
    api_version: str
    group_resource: str
    prefix: str
    storage_version_hash: str
    json_only: bool = False
    rule: str = ""
    custom: bool = False

    def __repr__(self) -> str:
        return f"Resource({self.group_resource}/{self.version})"

    @cached_property
    def schema(self) -> SchemaNode:
        """Compiled when first asked for: a run touches a few kinds only."""
        return schema_of_kind(self.upstream_group, self.version, self.kind)

    @property
    def lifecycle(self) -> Lifecycle | None:
        """Of a version that is deprecated."""
        return DEPRECATED.get((self.short_group, self.version))

    @property
    def listed_subresources(self) -> tuple[Subresource, ...]:
        """Those that discovery and OpenAPI list."""
        return tuple([sub for sub in self.subresources if sub.name not in UNSERVED])

    def subresource(self, name: str) -> Subresource | None:
        return next((sub for sub in self.subresources if sub.name == name), None)


class More(Protocol):
    """Kinds that come and go: what definitions add to a scheme.  `served`: as `custom.Served`."""

    @property
    def served(self) -> Any: ...


class _Nothing:
    """No definitions."""

    def __init__(self) -> None:
        self.versions: dict[str, list[str]] = {}
        self.resources: tuple[Resource, ...] = ()

    @property
    def served(self) -> _Nothing:
        return self

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return None

    def named(self, text: str) -> Resource | None:
        return None

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        return None


class NoResource(KeyError):
    """No resource is called so, or not yet: a definition adds it when it is established."""

    def __str__(self) -> str:
        return f"there is no resource {self.args[0]!r}, or not yet"


class Scheme:
    """The resources of a naming set that are served, in the order of the table.

    off: those that are not; by name they are still known, to those who ask for them in vain.
    more: those that definitions add.  Only what is not found in the table is looked for there.
    fixed: the scheme of the table alone that this one goes back to, by which is remembered what depends on no definition
    """

    def __init__(self, names: Names, off: frozenset[tuple[str, str, str]] = frozenset()) -> None:
        self.names = names
        self.more: More = _Nothing()
        self.fixed = self
        known = _resources(names)
        self.resources = tuple(r for r in known if (r.group, r.version, r.plural) not in off)
        self._by_name: dict[str, Resource] = {}
        self._by_path: dict[tuple[str, str, str], Resource] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        for r in known:
            for text in (r.plural, f"{r.plural}.{r.group}", f"{r.plural}.{r.short_group}"):
                self._by_name.setdefault(text, r)
        for r in self.resources:
            self._by_path[r.group, r.version, r.plural] = r
            self._by_kind.setdefault((r.api_version, r.kind), r)

    def resource(self, text: str | Resource) -> Resource:
        """ "pods", "deployments.apps", "events.events.k8s.io": the first of the table where ambiguous."""
        if not isinstance(text, str):
            return text
        return self._by_name.get(text) or self._added(text)

    def named(self, text: str) -> Resource | None:
        """As `resource`, of what may not be there: definitions come and go."""
        return self._by_name.get(text) or self.more.served.named(text)

    def _added(self, text: str) -> Resource:
        found: Resource | None = self.more.served.named(text)
        if found is None:
            raise NoResource(text)
        return found

    def beside(self, more: More) -> Self:
        """The same table, with other definitions: those that somebody else sees."""
        other = copy.copy(self)
        other.more = more
        return other

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource a URL names."""
        return self._by_path.get((group, version, plural)) or self.more.served.find(group, version, plural)

    def serves(self, text: str | Resource) -> bool:
        """Whether a resource that is known is served."""
        r = self.resource(text)
        return self.find(r.group, r.version, r.plural) is r

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        return self._by_kind.get((api_version, kind)) or self.more.served.by_kind(api_version, kind)

    def key(self, resource: str | Resource, namespace: str, name: str) -> str:
        """Key in the store; the namespace of cluster-scoped kinds is dropped."""
        known = self._by_name
        r = (known.get(resource) or self._added(resource)) if isinstance(resource, str) else resource
        return f"{r.prefix}{namespace}/{name}" if r.namespaced else f"{r.prefix}/{name}"

    def prefix(self, resource: str | Resource, namespace: str = "") -> str:
        """Prefix of a resource's keys, or of those in one namespace."""
        known = self._by_name
        r = (known.get(resource) or self._added(resource)) if isinstance(resource, str) else resource
        return f"{r.prefix}{namespace}/" if namespace else r.prefix


@lru_cache(maxsize=8)
def _resources(names: Names) -> tuple[Resource, ...]:
    return tuple(_resource(names, row) for row in ROWS)


def _verbs(letters: str) -> tuple[str, ...]:
    return tuple(VERBS[letter] for letter in letters)


def _resource(names: Names, row: Row) -> Resource:
    group = names.group(row.group)
    stored = group if row.stored_in is None else names.group(row.stored_in)
    hashed = f"{stored}/{row.stored_version or row.version}/{row.kind}"
    return Resource(
        group=group,
        version=row.version,
        plural=row.plural,
        singular=row.kind.lower(),
        kind=row.kind,
        list_kind=f"{row.kind}List",
        namespaced=row.namespaced,
        short_names=row.short,
        categories=row.categories,
        verbs=_verbs(row.verbs),
        subresources=tuple(
            Subresource(s.name, s.kind or row.kind, _verbs(s.verbs), names.group(s.group), s.version)
            for s in row.subs
        ),
        short_group=row.group,
        upstream_group=names.upstream_group(group),
        api_version=names.api_version(row.group, row.version),
        group_resource=f"{row.plural}.{group}" if group else row.plural,
        prefix=f"/{stored}/{row.plural}/",
        storage_version_hash=b64encode(sha256(hashed.encode()).digest()[:8]).decode()
        if "g" in row.verbs
        else "",
        json_only=row.json_only,
        rule=row.plural,
    )
