"""A served resource: one version of one kind, in one naming set.

Turns nothing: `scheme` makes resources from the rows of the kinds, `crd.served` from definitions.

Holds: there is one `Resource` object for each group, version and plural, so identity is equality.

Mirrors  apimachinery v1.25 pkg/apis/meta/v1/types.go (APIResource),
         pkg/runtime/schema/group_version.go.
"""

from __future__ import annotations

from functools import cached_property

from sim.api.schema.field_schemas import SchemaNode, schema_of_kind
from sim.api.schema.kind import FormMaker, Kind, Lifecycle
from sim.dataclass import dataclass

# `Resource.rule` of custom resources, without and with /status; no plural has a space.
CUSTOM, CUSTOM_WITH_STATUS = "custom resources", "custom resources with status"


@dataclass(frozen=True, slots=True)
class Subresource:
    """A subresource.

    group, version: "" unless discovery states them (autoscaling/v1 Scale under apps)
    """

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Naming:
    """The names of a resource besides its plural and its kind.

    short: those that a command line knows; categories: groups of resources, such as "all"
    """

    singular: str
    list_kind: str
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Resource:
    """One served resource.  Compared and hashed by identity.

    group, version: as served, in this naming set
    short_group: the group without its domain ("discovery", "", "apps")
    api_version: "apps/v1"; group_resource: "deployments.apps", as error messages name it
    prefix: of all its keys in the store
    storage_version_hash: "" where nothing is stored (bindings, componentstatuses)
    behavior: defaults, strategy, validation and table of its kind
    json_only: True if it is not served in protobuf
    rule: the plural; for all custom resources one common value
    custom: True if a definition made it: a `crd.served.CustomResource`
    lifecycle: of a version that is deprecated
    form: makes the conversion to the stored form where the fields of this version differ from it
    """

    group: str
    version: str
    plural: str
    kind: str
    naming: Naming
    namespaced: bool
    verbs: tuple[str, ...]
    subresources: tuple[Subresource, ...]
    short_group: str
    upstream_group: str
    api_version: str
    group_resource: str
    prefix: str
    storage_version_hash: str
    behavior: Kind
    json_only: bool = False
    rule: str = ""
    custom: bool = False
    lifecycle: Lifecycle | None = None
    form: FormMaker | None = None

    @property
    def listed_verbs(self) -> tuple[str, ...]:
        """The verbs that discovery lists."""
        return tuple(self.verbs)

    def __repr__(self) -> str:
        return f"Resource({self.group_resource}/{self.version})"

    @cached_property
    def schema(self) -> SchemaNode:
        """The field schema, compiled on first use, because a run touches a few kinds only."""
        return schema_of_kind(self.upstream_group, self.version, self.kind)

    @property
    def package(self) -> str:
        """The package of upstream's internal type: events of both groups are those of the core."""
        return "core" if self.rule == "events" else self.short_group.partition(".")[0] or "core"

    def subresource(self, name: str) -> Subresource | None:
        """The subresource of that name; None if there is none."""
        return next((sub for sub in self.subresources if sub.name == name), None)
