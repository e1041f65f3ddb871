"""The resources of one naming set: look-ups by resource, kind and URL, and the keys of the store.

The rows of `kinds` and the names of a cluster become `Resource`s.

Holds: one `Resource` object exists per group, version and plural, so identity is equality. A
resource that stores its objects in another group (events.k8s.io in core) has the keys of that
group.

Mirrors  kubernetes v1.25 pkg/api/legacyscheme,
         pkg/kubeapiserver/default_storage_factory_builder.go.
Differs  keys are `/<group>/<resource>/<namespace>/<name>` for every kind; upstream's prefixes
         differ per resource (`/registry/services/specs/`, `/registry/minions/`), which no client
         can see.
"""

from __future__ import annotations

import copy
from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from typing import Any, Self

from sim.api.kinds.registry import KINDS, rows_of
from sim.api.schema.kind import VERBS, Kind, Row
from sim.api.schema.resource import Naming, Resource, Subresource
from sim.api.scheme.runtime_config import off_by_default
from sim.ident import Names


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
    """No resource has that name, or its definition is not established yet."""

    def __str__(self) -> str:
        return f"there is no resource {self.args[0]!r}, or not yet"


class Scheme:
    """The served resources of a naming set, in the order of the table.

    off: resources that are not served, None: those that are off by default; by name they are still
        found
    enums: False if documents leave out which values fields of fixed kinds may have
    more: the resources that definitions add at run time; searched after the table.  `served` holds
        the present ones as `crd.served.Served`
    fixed: the scheme of the table alone, the key of memos that depend on no definition
    """

    def __init__(
        self,
        names: Names,
        off: frozenset[tuple[str, str, str]] | None = None,
        kinds: tuple[Kind, ...] = KINDS,
        enums: bool = True,
    ) -> None:
        self.names = names
        self.enums = enums
        self.more: Any = _Nothing()
        self.fixed = self
        off = off_by_default(names) if off is None else off
        known = _resources(names, kinds)
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
        """The resource of a name: "pods", "deployments.apps", "events.events.k8s.io".

        Of an ambiguous name, the first in the table.
        """
        if not isinstance(text, str):
            return text
        return self._by_name.get(text) or self._added(text)

    def named(self, text: str) -> Resource | None:
        """As `resource`, but None if there is none: definitions come and go at run time."""
        return self._by_name.get(text) or self.more.served.named(text)

    def _added(self, text: str) -> Resource:
        found: Resource | None = self.more.served.named(text)
        if found is None:
            raise NoResource(text)
        return found

    def beside(self, more: Any) -> Self:
        """The same table with other definitions, for a reader that sees another state."""
        other = copy.copy(self)
        other.more = more
        return other

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource that a URL names."""
        return self._by_path.get((group, version, plural)) or self.more.served.find(group, version, plural)

    def serves(self, text: str | Resource) -> bool:
        """True if a known resource is served."""
        r = self.resource(text)
        return self.find(r.group, r.version, r.plural) is r

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource of a kind; None if there is none."""
        return self._by_kind.get((api_version, kind)) or self.more.served.by_kind(api_version, kind)

    def key(self, resource: str | Resource, namespace: str, name: str) -> str:
        """The key of an object in the store; the namespace of cluster-scoped kinds is dropped."""
        known = self._by_name
        r: Any = resource
        if isinstance(resource, str):
            r = known.get(r) or self._added(r)
        return f"{r.prefix}{namespace}/{name}" if r.namespaced else f"{r.prefix}/{name}"

    def prefix(self, resource: str | Resource, namespace: str = "") -> str:
        """The prefix of a resource's keys, or of those in one namespace."""
        known = self._by_name
        r = (known.get(resource) or self._added(resource)) if isinstance(resource, str) else resource
        return f"{r.prefix}{namespace}/" if namespace else r.prefix


@lru_cache(maxsize=8)
def _resources(names: Names, kinds: tuple[Kind, ...]) -> tuple[Resource, ...]:
    return tuple(_resource(names, row, kind) for row, kind in rows_of(kinds))


def _verbs(letters: str) -> tuple[str, ...]:
    return tuple(VERBS[letter] for letter in letters)


def _resource(names: Names, row: Row, kind: Kind) -> Resource:
    group = names.group(row.group)
    stored = group if row.stored_in is None else names.group(row.stored_in)
    hashed = f"{stored}/{row.stored_version or row.version}/{row.kind}"
    return Resource(
        group=group,
        version=row.version,
        plural=row.plural,
        kind=row.kind,
        naming=Naming(row.kind.lower(), f"{row.kind}List", row.short, row.categories),
        namespaced=row.namespaced,
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
        if "c" in row.verbs and "g" in row.verbs
        else "",
        behavior=kind,
        json_only=row.json_only,
        rule=row.plural,
        lifecycle=row.lifecycle,
        form=row.form,
    )
