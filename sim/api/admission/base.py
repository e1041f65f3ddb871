"""The parts of admission plugins: the attributes of a request, the view of the cluster, the
refusal.

Mirrors  kubernetes v1.25 apiserver pkg/admission/{attributes.go,errors.go,interfaces.go}.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

from sim.api import status
from sim.api.auth.attributes import OpinionGiver
from sim.api.schema.json_text import go_quote
from sim.api.schema.resource import Resource
from sim.api.types import Obj, UserInfo
from sim.api.validation import text as problems_of
from sim.ident import Names

Operation = Literal["create", "update", "delete", "connect"]


class View(Protocol):
    """What plugins may read: the stored objects, by resource as `Scheme.resource` accepts it."""

    def get(self, resource: str, namespace: str, name: str) -> Obj | None:
        """The object of that name; None if there is none."""

    def list(self, resource: str, namespace: str = "") -> Sequence[Obj]:
        """All objects, or those of a namespace."""

    def by_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource of a kind; None if it is not served."""

    def mark_volatile(self) -> None:
        """Says that the decision on this request depends on more than its form and the objects that
        were read, for example on its user or on the time, so that it must not be used again.
        """


class Attributes(msgspec.Struct, frozen=True, kw_only=True):
    """The request that is admitted.

    name: of the object; "" if it is created with a generateName
    old: the stored object; None on create
    user: the user that sends the request
    dry_run: True if nothing will be stored
    now_us: the present time, in microseconds
    authorizer: for plugins that ask for rights of the user; None: all users may do everything
    warnings: warnings that plugins add to the reply
    annotations: annotations that plugins add to the audit event; None: the request is not audited
    count: adds to a metric, by its name and labels; None while there is no reader
    """

    operation: Operation
    resource: Resource
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    old: Obj | None = None
    user: UserInfo = UserInfo("")
    dry_run: bool = False
    now_us: int = 0
    authorizer: OpinionGiver | None = None
    warnings: list[str] = msgspec.field(default_factory=list)
    annotations: dict[str, str] | None = None
    count: Callable[[str, tuple[str, ...]], None] | None = None


class Denial(msgspec.Struct, frozen=True):
    """A refusal: the parts of its Status."""

    code: int
    reason: str
    message: str
    details: Obj | None


@runtime_checkable
class MutatingPlugin(Protocol):
    """A plugin that may change the object before it is validated."""

    def concerns(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True if requests of this kind go through `mutate`, which gets no others."""
        ...

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The object as the plugin leaves it (the same if nothing changes), or a refusal."""
        ...


@runtime_checkable
class ValidatingPlugin(Protocol):
    """A plugin that checks the object as it will be stored."""

    def judges(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True if requests of this kind go through `validate`, which gets no others."""
        ...

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """A refusal, or None."""
        ...


# A plugin of the chain: it mutates, validates or does both.
Plugin = MutatingPlugin | ValidatingPlugin


def forbidden(attributes: Attributes, text: str, name: str = "", causes: list[Obj] | None = None) -> Denial:
    """The refusal `pods "x" is forbidden: TEXT`, as upstream's admission.NewForbidden words it."""
    resource = attributes.resource
    name = name or attributes.name
    details: Obj = {"name": name} if name else {}
    if resource.group:
        details["group"] = resource.group
    details["kind"] = resource.plural
    if causes:
        details["causes"] = causes
    return Denial(403, "Forbidden", f'{resource.group_resource} "{name}" is forbidden: {text}', details)


def bad_name(name: str) -> str:
    """Why a client cannot ask for an object of that name; "" if it can.

    Mirrors  client-go v1.25 rest/request.go: Name.
    """
    if not name:
        return "resource name may not be empty"
    problems = problems_of.segment(name)
    return f"invalid resource name {go_quote(name)}: [{' '.join(problems)}]" if problems else ""


def not_found(plural: str, name: str) -> Denial:
    """The refusal of a request that needs an object of the core group that does not exist."""
    return Denial(404, "NotFound", f'{plural} "{name}" not found', {"name": name, "kind": plural})


def failed(text: str) -> Denial:
    """The refusal with a plain error, which upstream answers with 500 and no reason."""
    return Denial(500, "", text, None)


def internal_error(text: str) -> Denial:
    """The refusal when a plugin cannot decide, as upstream's errors.NewInternalError words it."""
    body = status.internal_error(text)
    return Denial(body["code"], body["reason"], body["message"], body["details"])


def is_pod(plural: str, subresource: str) -> bool:
    """True for requests to pods themselves, not to a subresource."""
    return plural == "pods" and not subresource


def is_mirror(names: Names, pod: Obj) -> bool:
    """True if a node agent made the pod to show a static pod."""
    return names.annotation_mirror_pod in (pod["metadata"].get("annotations") or ())


def name_of(attributes: Attributes, obj: Obj) -> str:
    """The name of an object in a refusal."""
    metadata = obj.get("metadata") or {}
    return attributes.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
