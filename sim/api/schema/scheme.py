"""The kinds of one naming set: look-ups by resource, kind and URL, and the keys of the store.

Turns the rows of `kinds` and the names of a cluster into `Resource`s.

Holds: one `Resource` object per group, version and plural, shared by everybody, so identity is
equality. A resource whose objects live in another group (events.k8s.io in core) has that group's
keys.

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
from typing import Any, Protocol, Self

from sim.api.kinds.kind import VERBS, Kind, Row
from sim.api.kinds.registry import KINDS, rows_of
from sim.api.schema.resource import Resource, Subresource
from sim.ident import Names


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
    fixed: the scheme of the table alone that this one goes back to, by which is remembered what
    depends on no definition
    """

    def __init__(
        self,
        names: Names,
        off: frozenset[tuple[str, str, str]] = frozenset(),
        kinds: tuple[Kind, ...] = KINDS,
    ) -> None:
        self.names = names
        self.more: More = _Nothing()
        self.fixed = self
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
        """ "pods", "deployments.apps", "events.events.k8s.io": the first of the table where
        ambiguous.
        """
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
        behavior=kind,
        json_only=row.json_only,
        rule=row.plural,
        lifecycle=row.lifecycle,
        form=row.form,
    )
