"""The life of a CustomResourceDefinition: acceptance of its names, establishment, deletion with its
objects.

A definition and the others of its group become the status that it should have next; each function
is one of upstream's controllers. None means that there is nothing to write.

Holds: a name belongs to the definition that had it accepted first, until that one changes it or is
deleted; an established definition stays established; a condition's time changes only with its
status.

Mirrors  apiextensions-apiserver v1.25
         pkg/controller/{status/naming_controller,establish/establishing_controller,
         apiapproval/apiapproval_controller,finalizer/crd_finalizer}.go, pkg/apihelpers/helpers.go,
         pkg/registry/customresourcedefinition/etcd.go (Delete).
Differs  condition NonStructuralSchema is never set: no such schema is ever stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sim.api import objects
from sim.api.kinds.apiextensions.custom_resource_definition.validation import approval
from sim.api.objects import condition_of, condition_status
from sim.api.schema.json_text import go_quote
from sim.api.types import Json, Obj

ACCEPTED, ESTABLISHED, TERMINATING = "NamesAccepted", "Established", "Terminating"
CONFORMANT = "KubernetesAPIApprovalPolicyConformant"
# Conditions of a group's approval: status and reason.
_APPROVALS = {
    "Missing": ("False", "MissingAnnotation"),
    "Invalid": ("False", "InvalidAnnotation"),
    "Approved": ("True", "ApprovedAnnotation"),
    "Unapproved": ("False", "UnapprovedAnnotation"),
}
# Conditions of a deletion: status, reason, message.
PENDING = (
    "True",
    "InstanceDeletionPending",
    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
)
IN_PROGRESS = ("True", "InstanceDeletionInProgress", "CustomResource deletion is in progress")
UNDONE = (
    "True",
    "InstanceDeletionCheck",
    "could not confirm zero CustomResources remaining: timed out waiting for the condition",
)
COMPLETED = ("False", "InstanceDeletionCompleted", "removed all instances")
NEVER = ("False", "NeverEstablished", "resource was never established")


# --- conditions -----------------------------------------------------------------------------------


def is_true(obj: Obj, kind: str) -> bool:
    """True if the condition is True."""
    return condition_status(obj, kind) == "True"


def with_condition(obj: Obj, kind: str, verdict: tuple[str, str, str], now_text: str) -> Obj:
    """The definition with a condition.

    verdict: its status, reason and message
    """
    status, reason, message = verdict
    new = {
        "type": kind,
        "status": status,
        "lastTransitionTime": now_text,
        "reason": reason,
        "message": message,
    }
    return objects.with_condition(obj, new)


def _has_condition(obj: Obj, kind: str, verdict: tuple[str, str, str]) -> bool:
    old = condition_of(obj, kind)
    return old is not None and (old["status"], old.get("reason"), old.get("message")) == verdict


# --- names ----------------------------------------------------------------------------------------


def _used(definitions: Iterable[Obj]) -> tuple[Mapping[str, None], Mapping[str, None]]:
    """The names of resources and of kinds that are taken."""
    resources: dict[str, None] = {}
    kinds: dict[str, None] = {}
    for definition in definitions:
        names = definition["status"]["acceptedNames"]
        for name in (names["plural"], names.get("singular", ""), *names.get("shortNames", ())):
            resources[name] = None
        kinds[names["kind"]] = kinds[names.get("listKind", "")] = None
    return resources, kinds


def named(obj: Obj, group: Iterable[Obj], now_text: str) -> Obj | None:
    """The definition with the names that it may have.

    group: all definitions of its group, including this one
    """
    wanted, had = obj["spec"]["names"], obj["status"]["acceptedNames"]
    if wanted == had:
        return None
    resources, kinds = _used(group)
    accepted = dict(had)
    verdict = ("True", "NoConflicts", "no conflicts found")
    for field, used in (
        ("plural", resources),
        ("singular", resources),
        ("shortNames", resources),
        ("kind", kinds),
        ("listKind", kinds),
    ):
        problem = _conflict(wanted.get(field), had.get(field), used)
        if not problem:
            _set(accepted, field, wanted.get(field))
        else:  # Quirk: the last conflict is the one that is reported
            verdict = ("False", f"{field[0].upper()}{field[1:]}Conflict", problem)
    _set(accepted, "categories", wanted.get("categories"))
    if accepted == had and _has_condition(obj, ACCEPTED, verdict):
        return None
    made = with_condition(
        {**obj, "status": {**obj["status"], "acceptedNames": accepted}}, ACCEPTED, verdict, now_text
    )
    if verdict[0] == "True" and not is_true(obj, ESTABLISHED):
        return with_condition(
            made, ESTABLISHED, ("False", "Installing", "the initial names have been accepted"), now_text
        )
    if condition_of(obj, ESTABLISHED) is None:
        refused = ("False", "NotAccepted", "not all names are accepted")
        return with_condition(made, ESTABLISHED, refused, now_text)
    return made


def _set(names: Obj, field: str, value: Json) -> None:
    if value:
        names[field] = value
    elif field in ("plural", "kind"):
        names[field] = ""
    else:
        names.pop(field, None)


def _conflict(wanted: Json, had: Json, used: Mapping[str, None]) -> str:
    """The conflicting names among the wanted ones, as text; "" if there are none."""
    if isinstance(wanted, list):
        taken = [name for name in wanted if name in used and name not in (had or ())]
    else:
        taken = [] if wanted == had or wanted not in used else [wanted]
    texts = list(dict.fromkeys(f"{go_quote(name)} is already in use" for name in taken))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""


# --- the other conditions -------------------------------------------------------------------------


def established(obj: Obj, now_text: str) -> Obj | None:
    """The definition as established, once its names are accepted."""
    if not is_true(obj, ACCEPTED) or is_true(obj, ESTABLISHED):
        return None
    verdict = ("True", "InitialNamesAccepted", "the initial names have been accepted")
    return with_condition(obj, ESTABLISHED, verdict, now_text)


def approved(obj: Obj, now_text: str) -> Obj | None:
    """The definition with the condition about its group's approval, if the group needs one."""
    state = approval(obj)
    if state is None:
        return None
    verdict = (*_APPROVALS[state[0]], state[1])
    return (
        None
        if _has_condition(obj, CONFORMANT, verdict)
        else with_condition(obj, CONFORMANT, verdict, now_text)
    )


# --- the end --------------------------------------------------------------------------------------


def marked(obj: Obj, finalizer: str, now_text: str) -> Obj:
    """The definition after the first DELETE: the finalizer keeps it until its objects are gone."""
    metadata = obj["metadata"]
    finalizers = metadata.get("finalizers") or []
    if finalizer not in finalizers:
        finalizers = [*finalizers, finalizer]
    metadata = {**metadata, "deletionTimestamp": now_text, "finalizers": finalizers}
    return with_condition({**obj, "metadata": metadata}, TERMINATING, PENDING, now_text)


def is_going(obj: Obj, finalizer: str) -> bool:
    """True if the definition is being deleted and its finalizer is present."""
    metadata = obj["metadata"]
    return bool(metadata.get("deletionTimestamp")) and finalizer in (metadata.get("finalizers") or ())


def released(obj: Obj, finalizer: str, verdict: tuple[str, str, str], now_text: str) -> Obj:
    """The definition without the finalizer."""
    metadata = obj["metadata"]
    left = [name for name in metadata.get("finalizers") or () if name != finalizer]
    return with_condition(
        {**obj, "metadata": {**metadata, "finalizers": left}}, TERMINATING, verdict, now_text
    )
