"""Subresources that are not plain parts of their object: binding, eviction, scale, finalize,
ephemeral containers.

A request to a subresource becomes a write of the object that it belongs to.

Holds: a pod is bound once; an eviction takes one disruption of the pod's budget before it deletes,
and only if the budget allows it.

Mirrors  kubernetes v1.25 pkg/registry/core/pod/storage/{storage,eviction}.go,
         pkg/registry/apps/*/storage, pkg/registry/core/namespace/storage.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import lru_cache

from sim.api.kinds.core.pod.disruption_target import Disruption, disrupted
from sim.api.objects import is_ready, with_metadata
from sim.api.refusals import Refusal, Steps, bad_request, internal
from sim.api.schema.kind import CONNECTING
from sim.api.selectors import from_selector
from sim.api.status import not_found, timeout, too_many_requests
from sim.api.store import Answer, Get, Item, Op, Page, Pause, Put, Range, Unavailable
from sim.api.types import CONFLICT, Obj, Reply
from sim.api.verbs.apply import patch
from sim.api.verbs.body import body_kind, decode
from sim.api.verbs.call import (
    Call,
    admitted,
    any_of,
    approved_by_hooks,
    check_namespace,
    found,
    received_metadata,
    unavailable,
    written,
)
from sim.api.verbs.components import get_component, list_components
from sim.api.verbs.connect import connect
from sim.api.verbs.custom import CUSTOM_SCALE
from sim.api.verbs.delete import DeleteOptions, check_delete_options, delete_object, given_options
from sim.api.verbs.log import read_log
from sim.api.verbs.review import review_access, review_rules
from sim.api.verbs.scale import get_scale, write_scale
from sim.api.verbs.single import as_before, get, precondition_failed, update, update_object
from sim.api.verbs.token import request_token
from sim.api.verbs.token_review import review_token
from sim.options.features.gates import POD_DISRUPTION
from sim.units import MS, go_quote

# eviction.go, EvictionsRetry: 20 attempts at a write that conflicts, 0.5 s x (1..1.1) apart.
EVICTION_TRIES_MAX = 20
EVICTION_PAUSE_US, EVICTION_JITTER_US = 500 * MS, 50 * MS
DISRUPTED_MAX = 2000  # eviction.go: MaxDisruptedPodSize
STALE_RETRY_S = 10  # eviction.go: the controller has not seen the budget's newest generation


# The body of every reply to a binding.
BOUND: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _success(call: Call) -> Reply:
    return Reply(201, body=BOUND, warnings=tuple(call.warnings))


# --- binding --------------------------------------------------------------------------------------


def bind(call: Call) -> Steps:
    """POST pods/NAME/binding, or bindings with the pod's name inside."""
    body = decode(call, body_kind(call))
    metadata = any_of(body.get("metadata"))
    check_namespace(metadata, call.request)
    if not call.request.name:  # POST bindings, which also drops the preconditions of the metadata
        metadata = received_metadata(call, body)
        call.request.name = metadata.get("name", "")
    call.subresource = call.request.subresource = "binding"
    body = yield from admitted(call, body)
    if metadata.get("name", "") != call.request.name:
        raise bad_request("name in URL does not match name in Binding object")
    target = any_of(body.get("target"))
    kind, node = target.get("kind", ""), target.get("name", "")
    wrong = []
    if kind not in ("", "Node"):
        wrong.append(f'target.kind: Unsupported value: {go_quote(kind)}: supported values: "Node", "<empty>"')
    if not node:
        wrong.append("target.name: Required value")
    if wrong:
        raise internal(wrong[0] if len(wrong) == 1 else f"[{', '.join(wrong)}]")
    call.registry.rules.check(call, body, None)
    yield from approved_by_hooks(call, body, None)
    if not call.request.name:
        raise bad_request("Name parameter required.")

    def assign(item: Item) -> Obj:
        return _assigned(call, item, metadata, node)

    yield from update_object(call, assign, as_before)
    return _success(call)


def _assigned(call: Call, item: Item, binding: Obj, node: str) -> Obj:
    """The pod bound to a node; raises a conflict if it may not be bound."""
    pod, name = item.obj, call.request.name
    own = pod["metadata"]
    uid, revision = binding.get("uid", ""), binding.get("resourceVersion", "")
    for wanted, stored, what in (
        (uid, own["uid"], "UID"),
        (revision, own["resourceVersion"], "ResourceVersion"),
    ):
        if wanted and wanted != stored:
            raise call.conflict(precondition_failed(call, wanted, stored, what))
    if own.get("deletionTimestamp"):
        raise _binding_conflict(call, f"pod {name} is being deleted, cannot be assigned to a host")
    spec = pod.get("spec") or {}
    if spec.get("nodeName"):
        raise _binding_conflict(call, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    bound = {**pod, "spec": {**spec, "nodeName": node}, "status": _scheduled(call, pod.get("status") or {})}
    annotations = binding.get("annotations")
    if annotations:
        bound = with_metadata(bound, annotations={**(own.get("annotations") or {}), **annotations})
    return bound


def _binding_conflict(call: Call, text: str) -> Refusal:
    name = call.request.name
    message = f'Operation cannot be fulfilled on pods/binding "{name}": {text}'
    return Refusal(409, "Conflict", message, {"name": name, "kind": "pods/binding"})


def _scheduled(call: Call, status: Obj) -> Obj:
    """The pod's status with the condition PodScheduled=True."""
    conditions = status.get("conditions") or []
    if not conditions:
        return {**status, "conditions": first_scheduled(call.now_text)}
    old = next((c for c in conditions if c["type"] == "PodScheduled"), None)
    if old is not None and old["status"] == "True":
        return status
    new = first_scheduled(call.now_text)[0]
    kept = [new if c is old else c for c in conditions] if old is not None else [*conditions, new]
    return {**status, "conditions": kept}


@lru_cache(maxsize=16)
def first_scheduled(now_text: str) -> list[Obj]:
    """The conditions of a pod bound now; pods bound within one second share the value."""
    condition = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now_text,
    }
    return [condition]


# --- eviction -------------------------------------------------------------------------------------


def evict(call: Call) -> Steps:
    """POST pods/NAME/eviction: a deletion that the pod's disruption budget must allow."""
    body = decode(call, body_kind(call))
    check_namespace(any_of(body.get("metadata")), call.request)
    body = yield from admitted(call, body)
    if any_of(body.get("metadata")).get("name") != call.request.name:
        raise bad_request("name in URL does not match name in Eviction object")
    delete_options = any_of(body.get("deleteOptions"))
    dry_run = delete_options.get("dryRun") or []
    if call.dry_run and dry_run and dry_run != ["All"]:
        raise internal(
            f"Non-matching dry-run options in request and content: [All] and [{' '.join(dry_run)}]"
        )
    call.dry_run = call.dry_run or bool(dry_run)
    call.registry.rules.check(call, body, None)
    yield from approved_by_hooks(call, body, None)
    options = given_options(delete_options)
    check_delete_options(call, options, dry_run)
    tries = 0
    while True:
        item = found((yield Get(call.key)))
        if item is None:
            raise call.not_found()
        if not _ignores_budget(item.obj):
            break
        tries += 1
        try:
            yield from _delete_evicted(call, _at_revision(options, item))
        except Refusal as refusal:
            if refusal.code != CONFLICT or options.revision is not None or tries >= EVICTION_TRIES_MAX:
                raise
            yield _pause(call)
        else:
            return _success(call)
    yield from _evict_within_budget(call, item, options)
    return _success(call)


def _at_revision(options: DeleteOptions, item: Item) -> DeleteOptions:
    """Options that delete the pod only at this revision, unless they name a revision already."""
    if options.revision is not None:
        return options
    return replace(options, revision=item.obj["metadata"]["resourceVersion"])


def _pause(call: Call) -> Pause:
    """The pause before the next attempt."""
    return Pause(EVICTION_PAUSE_US + (EVICTION_JITTER_US * call.registry.bits(16) >> 16))


def _evict_within_budget(call: Call, item: Item, options: DeleteOptions) -> Steps:
    """Evicts a pod that a budget may protect."""
    pod = item.obj
    budget = yield from _budget_of(call, pod)
    if budget is None or (yield from _spend(call, pod, budget)):
        return (yield from _delete_evicted(call, options))
    try:
        return (yield from _delete_evicted(call, _at_revision(options, item)))
    except Refusal as refusal:
        if refusal.code != CONFLICT or options.revision is not None:
            raise
        raise _still_processed(budget.obj["metadata"]["name"]) from None


def _delete_evicted(call: Call, options: DeleteOptions) -> Steps:
    """Deletes the pod; sets the condition DisruptionTarget first if its feature gate is on."""
    if POD_DISRUPTION not in call.registry.gates or call.dry_run:
        return (yield from delete_object(call, options))
    while True:
        item = found((yield Get(call.key)))
        if item is None:
            raise call.not_found()
        marked = disrupted(item.obj, Disruption.EVICTION, call.now_text)
        if marked is item.obj:
            return (yield from delete_object(call, options))
        if options.revision not in (None, item.obj["metadata"]["resourceVersion"]):
            return (yield from delete_object(call, options))  # which is refused
        marked = {**marked, "metadata": {**marked["metadata"]}}
        put = written((yield Put(item.key, marked, item.rev, item.managed, call.request.cause)))
        if put is not None:
            break
    if options.revision is not None:
        options = replace(options, revision=str(put.rev))
    return (yield from delete_object(call, options))


def _ignores_budget(pod: Obj) -> bool:
    """True if the eviction of the pod needs no budget."""
    phase = (pod.get("status") or {}).get("phase")
    return bool(pod["metadata"].get("deletionTimestamp")) or phase in ("Pending", "Succeeded", "Failed")


def _budget_of(call: Call, pod: Obj) -> Generator[Op, Answer, Item | None]:
    """The one budget that matches the pod; raises if there are several."""
    budgets = call.registry.scheme.resource("poddisruptionbudgets")
    page = yield Range(call.registry.scheme.prefix(budgets, call.request.namespace))
    if isinstance(page, Unavailable):
        unavailable(page)
    assert isinstance(page, Page)
    labels = pod["metadata"].get("labels") or {}
    matching = []
    for item in page.items:
        selector = from_selector((item.obj.get("spec") or {}).get("selector"))
        # Quirk: an empty selector protects no pod here, while the budget's controller counts every
        # pod.
        if not selector.empty and selector.matches(labels):
            matching.append(item)
    if len(matching) > 1:
        raise internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    return matching[0] if matching else None


def _spend(call: Call, pod: Obj, item: Item) -> Generator[Op, Answer, bool]:
    """Takes one disruption of the budget; raises if the budget refuses the eviction.

    Returns False if the eviction takes none, which is so while the pod stays unready and the budget
    is met.
    """
    status = item.obj.get("status") or {}
    if not is_ready(pod) and status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0:
        return False
    for left in reversed(range(EVICTION_TRIES_MAX)):
        status = item.obj.get("status") or {}
        _check_budget(call, item.obj, status)
        if call.dry_run:
            return True
        disrupted = {**(status.get("disruptedPods") or {}), pod["metadata"]["name"]: call.now_text}
        allowed = status.get("disruptionsAllowed", 0) - 1
        new = {**status, "disruptionsAllowed": allowed, "disruptedPods": disrupted}
        if allowed == 0 and new.get("conditions"):
            new["conditions"] = [_insufficient(call, c) for c in new["conditions"]]
        obj = {**item.obj, "metadata": {**item.obj["metadata"]}, "status": new}
        if written((yield Put(item.key, obj, item.rev, item.managed, call.request.cause))) is not None:
            return True
        if not left:
            break
        yield _pause(call)
        again = found((yield Get(item.key)))
        if again is None:
            budgets = call.registry.scheme.resource("poddisruptionbudgets")
            raise Refusal.of(not_found(budgets, item.obj["metadata"]["name"]))
        item = again
    text = f'couldn\'t update PodDisruptionBudget "{item.obj["metadata"]["name"]}" due to conflicts'
    raise Refusal.of(timeout(text, STALE_RETRY_S))


def _insufficient(call: Call, condition: Obj) -> Obj:
    """The condition of a budget that allows no further disruption."""
    if condition["type"] != "DisruptionAllowed" or condition["status"] == "False":
        return condition
    return {
        **condition,
        "status": "False",
        "reason": "InsufficientPods",
        "lastTransitionTime": call.now_text,
    }


def _forbidden(call: Call, name: str, why: str) -> Refusal:
    """The refusal of an eviction.

    Quirk: its message names the budget's resource in the singular.
    """
    about = {"name": name, "group": call.registry.scheme.resource("poddisruptionbudgets").group}
    kind = "poddisruptionbudget"
    text = f'{kind}.{about["group"]} "{name}" is forbidden: {why}'
    return Refusal(403, "Forbidden", text, {**about, "kind": kind})


def _still_processed(name: str) -> Refusal:
    """The refusal of an eviction while the budget's controller has not observed it."""
    cause = {
        "reason": "DisruptionBudget",
        "message": f"The disruption budget {name} is still being processed by the server.",
    }
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    return Refusal.of(too_many_requests(text, STALE_RETRY_S, [cause]))


def _check_budget(call: Call, budget: Obj, status: Obj) -> None:
    """Raises if the budget allows no disruption now."""
    name = budget["metadata"]["name"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _still_processed(name)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise _forbidden(call, name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > DISRUPTED_MAX:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise _forbidden(call, name, why)
    if allowed == 0:
        text = (
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods "
            f"and has {status.get('currentHealthy', 0)} currently"
        )
        cause = {"reason": "DisruptionBudget", "message": text}
        refusal = too_many_requests(
            "Cannot evict pod as it would violate the pod's disruption budget.", 0, [cause]
        )
        raise Refusal.of(refusal)


# --- ephemeral containers -------------------------------------------------------------------------


def write_ephemeral(call: Call) -> Steps:
    """PUT or PATCH pods/NAME/ephemeralcontainers.

    Only that list changes: the strategy restores all other fields.
    """
    return (yield from (update(call) if call.request.verb == "update" else patch(call)))


SUBRESOURCES: dict[tuple[str, str, str], Callable[[Call], Steps]] = {
    ("create", "pods", "binding"): bind,
    ("create", "bindings", ""): bind,
    ("create", "pods", "eviction"): evict,
    ("create", "selfsubjectaccessreviews", ""): review_access,
    ("create", "subjectaccessreviews", ""): review_access,
    ("create", "localsubjectaccessreviews", ""): review_access,
    ("create", "selfsubjectrulesreviews", ""): review_rules,
    ("create", "tokenreviews", ""): review_token,
    ("get", "componentstatuses", ""): get_component,
    ("list", "componentstatuses", ""): list_components,
    ("update", "namespaces", "finalize"): update,
    ("create", "serviceaccounts", "token"): request_token,
    ("get", "pods", "log"): read_log,
    ("get", "pods", "ephemeralcontainers"): get,
    ("update", "pods", "ephemeralcontainers"): write_ephemeral,
    ("patch", "pods", "ephemeralcontainers"): write_ephemeral,
    ("get", "certificatesigningrequests", "approval"): get,
    ("update", "certificatesigningrequests", "approval"): update,
    ("patch", "certificatesigningrequests", "approval"): patch,
}

# Resources of which nothing is stored.
VIRTUAL = tuple(dict.fromkeys(resource for _, resource, sub in SUBRESOURCES if not sub))
STATUS: dict[str, Callable[[Call], Steps]] = {"get": get, "update": update, "patch": patch}
SCALE: dict[str, Callable[[Call], Steps]] = {"get": get_scale, "update": write_scale, "patch": write_scale}


def verb_of(call: Call) -> Callable[[Call], Steps] | None:
    """The generator function of a subresource request; None if the server has none."""
    request = call.request
    if request.subresource in CONNECTING and not call.resource.custom:
        return connect
    special = SUBRESOURCES.get((request.verb, request.resource, request.subresource))
    if special is not None:
        return special
    if request.subresource == "status":
        return STATUS.get(request.verb)
    if request.subresource == "scale":
        if call.resource.custom:
            return CUSTOM_SCALE.get(request.verb)
        return SCALE.get(request.verb)
    return None
