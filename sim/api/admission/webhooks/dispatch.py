"""Calls of admission webhooks, as generators within a verb.

Turns the attributes and the object of a request into questions, and their answers into the object
as mutating webhooks change it, or a `Refusal`.

Mutating webhooks are called one by one, and each sees the changes of those before it.  If one
changed the object, the mutating plugins of the server run once more, and then the webhooks with
reinvocationPolicy IfNeeded that were called before a change.  Validating webhooks are called at
once; the first failure to arrive is the answer.

Holds: a webhook that did not match in the first round is not called in the second; there is no
third.

Mirrors  kubernetes v1.25 apiserver pkg/admission/plugin/webhook/mutating/{dispatcher,
         reinvocationcontext}.go, validating/dispatcher.go; pkg/admission/reinvocation.go.
Differs  the audit annotations with the patches themselves, which upstream adds at level Request,
         are not written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from dataclasses import field

from sim.api import status
from sim.api.admission.base import Attributes, Denial, View
from sim.api.admission.webhooks.hooks import MUTATING as MUTATING_KIND
from sim.api.admission.webhooks.hooks import VALIDATING as VALIDATING_KIND
from sim.api.admission.webhooks.hooks import Hook, Invocation, Served, hooks_of, invocation_of
from sim.api.admission.webhooks.review import (
    VERSIONS,
    Shown,
    Verdict,
    call_failure,
    dry_run_unsupported,
    operation_options,
    question_of,
    rejection,
    verdict_of,
    version_of,
)
from sim.api.crd.structural_values import BadPart, with_fitting_metadata
from sim.api.generated_names import new_uid
from sim.api.patch.json_patches import PatchError, json_patch
from sim.api.refusals import Refusal
from sim.api.schema.decoding import other_kind
from sim.api.schema.field_validation import DecodeError, conform, go_kind
from sim.api.schema.json_text import go_quote, parse
from sim.api.schema.resource import Resource
from sim.api.store import Answer, Consult, Consulted, Op, Question
from sim.api.types import Json, Obj
from sim.api.validation.errors import invalid
from sim.api.verbs.call import Call
from sim.api.webhooks.reviews import BadReview, decoded_review
from sim.dataclass import dataclass

NO_SIDE_EFFECTS = ("None", "NoneOnDryRun")
Run = Generator[Op, Answer, Obj | None]
Convert = Callable[[Resource, Obj], Obj]


@dataclass(frozen=True, slots=True)
class Machine:
    """What calls of webhooks need of the server.

    served: all versions in which the objects of a resource are served
    shown: converts an object of the request into the version of a resource; taken_in: converts such
        an object back, with defaults
    rescaled: an object with the number of replicas of a Scale
    again: runs the mutating plugins of the server on an object
    """

    view: View
    served: Served
    shown: Convert
    taken_in: Convert
    rescaled: Callable[[Obj, Obj], Obj]
    again: Callable[[Obj], Obj]


@dataclass(slots=True)
class _Round:
    """What reinvocation depends on: the uids of called webhooks, and of those to repeat."""

    number: int = 0
    invoked: dict[str, None] = field(default_factory=dict)
    repeated: dict[str, None] = field(default_factory=dict)

    def repeat_invoked(self) -> None:
        """An object changed: the reinvocable webhooks that were called so far are called again."""
        self.repeated |= self.invoked
        self.invoked = {}


class _Failed(Exception):
    """A call that failed, so that the failure policy decides."""


def mutate(call: Call, attributes: Attributes, obj: Obj | None, machine: Machine) -> Run:
    """The object after all mutating webhooks; raises `Refusal`.

    obj: the new object; None for a delete
    """
    hooks = hooks_of(machine.view, MUTATING_KIND)
    state = _Round()
    changed = yield from _round(call, attributes, obj, machine, hooks, state)
    if changed is obj or changed is None:
        return obj
    again = machine.again(changed)
    if again != changed:  # every webhook that was called before may have to see it
        state.repeat_invoked()
    state.number = 1
    return (yield from _round(call, attributes, again, machine, hooks, state))


def _round(
    call: Call, attributes: Attributes, obj: Obj | None, machine: Machine, hooks: list[Hook], state: _Round
) -> Run:
    for hook in hooks:
        invocation = invocation_of(hook, attributes, obj, machine.view, machine.served)
        if isinstance(invocation, Denial):
            raise _refusal(invocation)
        if invocation is None or (state.number and hook.uid not in state.repeated):
            continue
        before = obj
        try:
            obj = yield from _call_mutating(call, attributes, invocation, obj, machine)
        except _Failed as failure:
            _check_policy(call, attributes, hook, str(failure), "mutation", state.number)
        is_changed = obj is not before
        _note(call, attributes, hook, state.number, is_changed)
        if is_changed:
            state.repeat_invoked()
        if hook.spec.get("reinvocationPolicy") == "IfNeeded":
            state.invoked[hook.uid] = None
    return obj


def _call_mutating(
    call: Call, attributes: Attributes, invocation: Invocation, obj: Obj | None, machine: Machine
) -> Run:
    shown = _shown(attributes, invocation, obj, machine)
    question = _question(call, attributes, invocation, shown, "admit")
    answer = yield Consult((question,))
    assert isinstance(answer, Consulted)
    ((_, given, failure),) = answer.answers
    verdict = _verdict(call, attributes, question, given, failure, mutating=True)
    if not verdict.patch:
        return obj
    operations = _operations(verdict)
    if not operations:
        return obj
    if obj is None or shown.obj is None:
        text = (
            f"admission webhook {go_quote(question.name)} attempted to modify the object, which is not"
            " supported for this operation"
        )
        raise Refusal.of(status.internal_error(text))
    try:
        patched = json_patch(shown.obj, operations)
    except PatchError as error:
        raise Refusal.of(status.internal_error(error.cause)) from None
    if patched == shown.obj or not isinstance(patched, dict):
        return obj
    if attributes.subresource == "scale":
        return machine.rescaled(obj, patched)
    patched = _decoded(invocation.resource, patched)
    return machine.taken_in(invocation.resource, patched)


def _decoded(resource: Resource, patched: Obj) -> Obj:
    """A patched object as its Go type has it: without unknown fields, and a custom one without
    metadata of wrong types.
    """
    if resource.custom:
        _check_custom_kind(resource, patched)
        try:
            return with_fitting_metadata(patched)
        except BadPart as error:
            raise Refusal.of(status.internal_error(str(error))) from None
    if why := other_kind(resource, patched):
        if "unknown conversion" in why:  # Quirk: this error gets no reason
            raise Refusal.of(status.status(500, "", why))
        raise Refusal.of(status.internal_error(why))
    made, _ = conform(resource.schema, patched, resource.kind)
    if isinstance(made, DecodeError):
        raise Refusal.of(status.internal_error(made.message))
    return {**made, "apiVersion": resource.api_version, "kind": resource.kind}


def _check_custom_kind(resource: Resource, patched: Obj) -> None:
    """Raises if a patch has changed what a custom resource is (customresource/validator.go)."""
    wanted = {"kind": resource.kind, "apiVersion": resource.api_version}
    errors = [
        invalid(field, patched.get(field, ""), f"must be {text}")
        for field, text in wanted.items()
        if patched.get(field) != text
    ]
    if errors:
        name = (patched.get("metadata") or {}).get("name", "")
        raise Refusal.of(status.invalid_object(resource, name, errors))


def _operations(verdict: Verdict) -> Json:
    """The operations of a patch."""
    try:
        operations = parse(verdict.patch.decode("utf-8", "replace"))
    except ValueError as error:
        raise Refusal.of(status.internal_error(str(error))) from None
    if operations is not None and not isinstance(operations, list):
        text = f"json: cannot unmarshal {go_kind(operations)} into Go value of type jsonpatch.Patch"
        raise Refusal.of(status.internal_error(text))
    if operations and verdict.patch_type != "JSONPatch":
        raise _Failed(f"unsupported patch type {go_quote(verdict.patch_type)}")
    return operations


def validate(call: Call, attributes: Attributes, obj: Obj | None, machine: Machine) -> Run:
    """Asks all validating webhooks that the request concerns; raises `Refusal`."""
    invocations: list[Invocation] = []
    for hook in hooks_of(machine.view, VALIDATING_KIND):
        invocation = invocation_of(hook, attributes, obj, machine.view, machine.served)
        if isinstance(invocation, Denial):
            raise _refusal(invocation)
        if invocation is not None:
            invocations.append(invocation)
    first: Refusal | None = None
    questions: list[Question] = []
    asked: list[int] = []
    for index, invocation in enumerate(invocations):
        try:
            shown = _shown(attributes, invocation, obj, machine)
            questions.append(_question(call, attributes, invocation, shown, "validating"))
            asked.append(index)
        except Refusal as refusal:
            first = first or refusal
        except _Failed as failure:
            first = first or _validating_failure(call, attributes, invocation.hook, str(failure), index)
    if questions:
        answer = yield Consult(tuple(questions))
        assert isinstance(answer, Consulted)
        for number, given, failed in answer.answers:
            hook = invocations[asked[number]].hook
            try:
                _verdict(call, attributes, questions[number], given, failed, mutating=False)
            except Refusal as refusal:
                first = first or refusal
            except _Failed as failure:
                refused = _validating_failure(call, attributes, hook, str(failure), asked[number])
                first = first or refused
    if first is not None:
        raise first
    return None


def _validating_failure(
    call: Call, attributes: Attributes, hook: Hook, text: str, index: int
) -> Refusal | None:
    try:
        _check_policy(call, attributes, hook._replace(place=index), text, "validating", 0)
    except Refusal as refusal:
        return refusal
    return None


# --- one call -------------------------------------------------------------------------------------


def _shown(attributes: Attributes, invocation: Invocation, obj: Obj | None, machine: Machine) -> Shown:
    resource = invocation.resource
    pair = (obj, attributes.old)
    namespace = attributes.namespace
    return Shown(
        *(
            None if each is None else _written(machine.shown(resource, each), resource, namespace)
            for each in pair
        )
    )


# What Go writes for the empty status of kinds that are not stored.
_NO_STATUS: dict[str, Obj] = {
    "SubjectAccessReview": {"allowed": False},
    "SelfSubjectAccessReview": {"allowed": False},
    "LocalSubjectAccessReview": {"allowed": False},
    "SelfSubjectRulesReview": {"incomplete": False, "nonResourceRules": None, "resourceRules": None},
    "TokenReview": {"user": {}},
    "TokenRequest": {"token": "", "expirationTimestamp": None},
}


def _written(obj: Obj, resource: Resource, namespace: str) -> Obj:
    """An object as Go writes it: with its namespace and the time of its creation, or null."""
    metadata = obj.get("metadata")
    status_of_kind = _NO_STATUS.get(str(obj.get("kind")))
    if status_of_kind is not None and "status" not in obj:
        obj = {**obj, "status": status_of_kind}
        metadata = metadata or {}
    if not isinstance(metadata, dict):
        return obj
    more: Obj = {}
    if namespace and "namespace" not in metadata:
        more["namespace"] = namespace
    if not resource.custom and "creationTimestamp" not in metadata:
        more["creationTimestamp"] = None
    return {**obj, "metadata": {**metadata, **more}} if more else obj


def _question(
    call: Call, attributes: Attributes, invocation: Invocation, shown: Shown, kind: str
) -> Question:
    """What the webhook is asked; raises `Refusal` if it may not be called."""
    name, effects = invocation.hook.name, invocation.hook.spec.get("sideEffects")
    if attributes.dry_run and effects not in NO_SIDE_EFFECTS:
        raise _refusal(dry_run_unsupported(name))
    if not version_of(invocation):
        known = ", ".join(VERSIONS)
        text = f"webhook does not accept known AdmissionReview versions ({known})"
        raise _Failed(f"could not create admission objects: {text}")
    registry = call.registry
    uid = new_uid(registry.bits)
    options = operation_options(attributes, call.options, call.operation_options, registry.names)
    return question_of(invocation, attributes, shown, options, uid, registry.names, kind)


def _verdict(
    call: Call, attributes: Attributes, question: Question, answer: Json, failure: str, mutating: bool
) -> Verdict:
    """The answer of an allowed request; raises `Refusal` or `_Failed`."""
    if failure:
        raise _Failed(f"failed to call webhook: {failure}")
    try:
        decoded = decoded_review(answer, question.body)
    except BadReview as error:
        raise _Failed(f"failed to call webhook: {error}") from None
    try:
        verdict = verdict_of(decoded, question, mutating)
    except ValueError as error:
        raise _Failed(f"received invalid webhook response: {error}") from None
    for key in sorted(verdict.annotations):
        _annotate(attributes, f"{question.name}/{key}", verdict.annotations[key])
    call.warnings += [text for text in verdict.warnings if text not in call.warnings]
    if not verdict.allowed:
        raise _refusal(rejection(question.name, verdict.result))
    return verdict


def _check_policy(call: Call, attributes: Attributes, hook: Hook, text: str, kind: str, number: int) -> None:
    """Raises `Refusal` unless failures of the webhook are ignored."""
    if not hook.ignores_failures:
        raise Refusal.of(status.internal_error(call_failure(hook.name, text)))
    domain = call.registry.names.group("admission")
    key = f"failed-open.{kind}.webhook.{domain}/round_{number}_index_{hook.place}"
    _annotate(attributes, key, hook.name)


def _note(call: Call, attributes: Attributes, hook: Hook, number: int, changed: bool) -> None:
    """The audit annotation that says whether a webhook changed the object."""
    if attributes.annotations is None:
        return
    value = {"configuration": hook.configuration, "webhook": hook.name, "mutated": changed}
    domain = call.registry.names.group("admission")
    key = f"mutation.webhook.{domain}/round_{number}_index_{hook.place}"
    _annotate(attributes, key, json.dumps(value, separators=(",", ":")))


def _annotate(attributes: Attributes, key: str, value: str) -> None:
    if attributes.annotations is not None:
        attributes.annotations.setdefault(key, value)


def _refusal(denial: Denial) -> Refusal:
    return Refusal(denial.code, denial.reason, denial.message, denial.details)
