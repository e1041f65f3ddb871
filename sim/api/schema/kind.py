"""What a kind of the API consists of: the record that each kind's module fills in.

Turns nothing.  `registry` lists the kinds; `Scheme` makes their rows into resources, and each
resource carries its kind.  The generic code (`strategies`, `defaults`, `validation`, `tables`,
`conversion`) reads the kind of a resource and names none.

Mirrors  kubernetes v1.25 pkg/registry/*/*/{strategy,storage}.go: what upstream spreads over
         strategy, storage, defaults, validation and printers of a kind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

from sim.api.schema.quota_use import ONLY_COUNTED, QuotaUse
from sim.api.store import Answer, Op
from sim.api.types import Obj, UserInfo
from sim.dataclass import dataclass
from sim.ident import Names

NOTHING: Obj = {}

# --- rows -----------------------------------------------------------------------------------------

# One letter for each verb, in the alphabetical order in which discovery lists the verbs.
VERBS = {
    "c": "create",
    "d": "delete",
    "D": "deletecollection",
    "g": "get",
    "l": "list",
    "p": "patch",
    "u": "update",
    "w": "watch",
}
ALL = "cdDglpuw"

# Subresources that connect a client with a pod, a service or a node.
CONNECTING = ("attach", "exec", "portforward", "proxy")


class Sub(NamedTuple):
    """A subresource.

    kind: "" stands for the kind of its resource
    group, version: given where discovery states them
    """

    name: str
    verbs: str
    kind: str = ""
    group: str = ""
    version: str = ""


STATUS = Sub("status", "gpu")
SCALE = Sub("scale", "gpu", "Scale", "autoscaling", "v1")


class Lifecycle(NamedTuple):
    """Minor releases in which a version is deprecated and removed, and the version that replaces
    it.

    removed: 0 if no release removes it; replacement: "" if there is none
    """

    deprecated: int
    removed: int = 0
    replacement: str = ""


Preparing = Callable[[Sequence[Obj], bool], Generator[Op, Answer, Callable[[Obj], Obj]]]


class Form(NamedTuple):
    """One served form of a kind: functions to the stored form of an object and back.

    prepare: called before either with (objects, True for the stored form) if another program
        converts objects; returns the function to use instead
    """

    stored: Callable[[Obj], Obj]
    shown: Callable[[Obj], Obj]
    prepare: Preparing | None = None


FormMaker = Callable[[str, Names], Form]


class Row(NamedTuple):
    """One served resource of a kind: a kind has a row for each version.

    group: the short name, without the domain
    stored_in: another group in which the objects are stored; None for the own group
    stored_version: the version in which objects are stored; "" for `version`
    json_only: True if no `numbers.txt` has the field numbers, so that protobuf is not served
    lifecycle: of a version that the served release deprecates
    form: makes the conversion from (apiVersion, names) where the fields differ from the stored form
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subs: tuple[Sub, ...] = ()
    verbs: str = ALL
    stored_in: str | None = None
    stored_version: str = ""
    json_only: bool = False
    lifecycle: Lifecycle | None = None
    form: FormMaker | None = None


# --- behaviour ------------------------------------------------------------------------------------

Defaults = Callable[[Any], Any]
Prepare = Callable[[Obj, Names], Obj]
PrepareUpdate = Callable[[Obj, Obj, Names], Obj]
Stamp = Callable[[Obj, Obj | None, UserInfo, str], Obj]
Cells = list[Any]
MakeCells = Callable[[Obj, int, Names], Cells]
# `sim.api.validation.errors.Errors`, which this module does not import: messages are not its
# concern.
Create = Callable[[Obj], list[Any]]
Update = Callable[[Obj, Obj], list[Any]]
# (new, old or {}, names, gates with another value than their default) -> new without the fields of
# features that are off
DropDisabled = Callable[[Obj, Obj, Names, Collection[str]], Obj]
Allocate = Callable[[str, Obj, Obj | None, Any], Generator[Op, Answer, Obj]]


def unchanged(obj: Obj, _: Names) -> Obj:
    """Prepare a create that changes nothing."""
    return obj


def unchanged_update(new: Obj, _old: Obj, _names: Names) -> Obj:
    """Prepare an update that changes nothing."""
    return new


# Of kinds for which upstream has no printer.
PLAIN_COLUMNS = ("Name=metadata.name", "Created At:date=metadata.creationTimestamp")


@dataclass(frozen=True, slots=True)
class Strategy:
    """How writes of a kind differ from the general rule.

    status: True if the kind has a status that only /status may write
    zero_status: the status of a new object, with the fields that upstream encodes even when they
        are zero
    keeps_created_status: True if a create may set the status
    generation: which changes `metadata.generation` counts ("", "spec", "spec+annotations",
        "template", "all", "content", "one")
    reflected: the field that the generation compares by reflection, so that an empty list or map
        in it that was sent counts as a change; "" for none
    create_by_put: True if a PUT to a missing name creates the object
    unconditional: True if a PUT without resourceVersion is accepted
    graceful: True if deletion waits for a grace period
        default_propagation: the propagation policy of a delete that names none; "Unsupported" if a
            delete never heeds dependents
    completed_by_read: True for a new object that storage holds without a default: upstream fills it
        in as it reads, so that the first write is a change even if it says nothing new
    read_into: changes the answer of a dry run, from (updated object, stored object): upstream reads
        the update into the stored object, and not all of that is replaced
    named_by_uid: True if a new object without a name gets an identifier as its name, even if it
        has a generateName
    fill_named: defaults that depend on the naming set, filled in when an object is created
    prepare_create, prepare_update, prepare_status: change an object before it is validated and
        stored
    prepare_subresource: the same for writes to other subresources
    stamp: after these, fills in what depends on the user and the time of the write, from (object,
        stored object or None, user, present time as a timestamp)
    """

    status: bool = False
    zero_status: Obj = field(default_factory=dict)
    keeps_created_status: bool = False
    generation: str = ""
    reflected: str = ""
    create_by_put: bool = False
    unconditional: bool = True
    graceful: bool = False
    default_propagation: str = "Background"
    completed_by_read: Callable[[Obj], bool] | None = None
    read_into: Callable[[Obj, Obj], Obj] | None = None
    named_by_uid: bool = False
    fill_named: Prepare = unchanged
    prepare_create: Prepare = unchanged
    prepare_update: PrepareUpdate = unchanged_update
    prepare_status: PrepareUpdate = unchanged_update
    prepare_subresource: Mapping[str, PrepareUpdate] = field(default_factory=dict)
    stamp: Stamp | None = None


# (stored, marked by the general rule, names, present time as a timestamp) -> the object to store
Mark = Callable[[Obj, Obj, Names, str], Obj]


def plain_mark(_old: Obj, marked: Obj, _names: Names, _now_text: str) -> Obj:
    """The deletion mark of the general rule."""
    return marked


def never_refused(_name: str) -> str:
    """No object of the kind is kept from deletion."""
    return ""


@dataclass(frozen=True, slots=True)
class Deletion:
    """How deletions of a kind differ from the general rule.

    returns_object: True if DELETE returns the deleted object instead of a Status
        (ReturnDeletedObject)
    refusal: why the object of a name cannot be deleted; "" if it can
    warning: the warning for a DELETE that names no propagation policy
    removes: the plural of a core kind of which the object of the same name goes too
    compares_itself: True if upstream's storage of the kind compares the preconditions, in its own
        words
    kept_by_spec: True if spec.finalizers keep an object too
    mark: changes an object that is marked as deleted
    """

    returns_object: bool = False
    refusal: Callable[[str], str] = never_refused
    warning: str = ""
    removes: str = ""
    compares_itself: bool = False
    kept_by_spec: bool = False
    mark: Mark = plain_mark

    def keeps(self, obj: Obj) -> bool:
        """True if spec.finalizers keep an object in the store."""
        return self.kept_by_spec and bool((obj.get("spec") or {}).get("finalizers"))


@dataclass(frozen=True, slots=True)
class Scaling:
    """How the scale of a kind differs from the general rule.

    plain_selector: True if spec.selector is a map of labels
    hides_scale: True if the message for a missing object omits the scale
    """

    plain_selector: bool = False
    hides_scale: bool = False


class GatedField(NamedTuple):
    """A field that is dropped from writes while its feature gate is off."""

    gate: str
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """All that belongs to one kind.  Compared and hashed by identity.

    rows: the resources, one for each served version, the preferred one first
    strategy: how writes differ from the general rule
    defaults: fills in what a client left out; the same object where nothing is missing
    status_defaults: the part of `defaults` that a write to /status needs; None for all of it
    gated_defaults: (object, gates with another value than their default) -> object with defaults of
        features behind gates
    validate_create: errors of a new object; None if the general rules of metadata are all
    validate_update: errors of an update, by subresource ("" for the main resource)
    gated_rules: makes the two rules above for gates of which some have another value than their
        default
    general_metadata: True if the general rules of metadata apply after `validate_create` too
    pod_spec: path of the pod spec in an object; () if there is none
    gated_fields: fields that are dropped while their gate is off, besides those of the pod spec
    drop_disabled: drops such fields where paths cannot name them; drop_disabled_status: from writes
        to /status
    misread: the error of an object that upstream cannot convert to its internal form, "" for none
    columns: of the table that kubectl prints: "Name", "*Wide" (priority 1), "Count:integer",
        "Attacher:name" (a text in the format of names); the path after "=" names the field that
        describes the column, or is its description in quotes
    described_by: (upstream's group, version) of the definition with these fields; None for the
        resource's own
    cells: makes the cells of one row; None for name and creation time
    row_conditions: conditions of a row
    row_order: what the rows of a list are sorted by; None for the order of the list
    warnings: of a valid write by any caller; client_warnings: (new, old or None, names), costlier
        ones that only requests from outside the process get
    deletion: how deletions differ from the general rule
    scaling: how the subresource scale differs from the general rule
    quota: the amounts that quotas can limit, besides the count of objects; None for a kind that no
        quota counts
    owned_across_versions: True if field ownership is converted between versions with other fields
    errors_in: the group that messages about invalid objects name, and those about preconditions of
        deletions; None for the resource's own
    settle: (accepted object, names) -> what upstream's storage gives back for it, where its stored
        version changes it
    converted_annotations: annotations that only the conversion to the version adds, so that forms
        with metadata only lack them
    allocate: gives an object addresses and ports on its way into the store
        (`core.service.addresses`)

    Size: each field is one thing in which kinds may differ from the general rule, declared by the
    kind's own file; it is a record that does not change.
    """

    rows: tuple[Row, ...]
    strategy: Strategy = Strategy()
    defaults: Defaults | None = None
    status_defaults: Defaults | None = None
    gated_defaults: Callable[[Obj, Collection[str]], Obj] | None = None
    validate_create: Create | None = None
    validate_update: Mapping[str, Update] = field(default_factory=dict)
    gated_rules: Callable[[Collection[str]], tuple[Create, Mapping[str, Update]]] | None = None
    general_metadata: bool = False
    pod_spec: tuple[str, ...] = ()
    gated_fields: tuple[GatedField, ...] = ()
    drop_disabled: DropDisabled | None = None
    drop_disabled_status: DropDisabled | None = None
    misread: Callable[[Obj], str] | None = None
    columns: tuple[str, ...] = PLAIN_COLUMNS
    described_by: tuple[str, str] | None = None
    cells: MakeCells | None = None
    row_conditions: Callable[[Obj], list[Obj]] | None = None
    row_order: Callable[[Obj], tuple[Any, ...]] | None = None
    warnings: Callable[[Obj, Names], tuple[str, ...]] | None = None
    client_warnings: Callable[[Obj, Obj | None, Names], Iterable[str]] | None = None
    deletion: Deletion = Deletion()
    scaling: Scaling = Scaling()
    quota: QuotaUse | None = ONLY_COUNTED
    converted_annotations: tuple[str, ...] = ()
    owned_across_versions: bool = False
    errors_in: str | None = None
    settle: Prepare | None = None
    allocate: Allocate | None = None
