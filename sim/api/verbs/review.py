"""Access reviews: whether a user may perform an action, and what the caller may do.

The answer is the review with a status, which holds the opinion of the server's authorizer.

Holds: nothing is stored.

Mirrors  kubernetes v1.25 pkg/registry/authorization/*/rest.go, pkg/registry/authorization/util,
         pkg/apis/authorization/validation.
"""

from __future__ import annotations

from sim.api import status
from sim.api.auth.attributes import AccessAttributes, Decision, Opinion
from sim.api.auth.chain import ALLOWED, UserRules
from sim.api.auth.rbac.authorizer import aggregate
from sim.api.go.printing import GoValue
from sim.api.ownership import managed
from sim.api.refusals import Refusal, Steps, bad_request
from sim.api.types import Obj, Reply, UserInfo
from sim.api.validation.errors import FieldError, invalid
from sim.api.verbs.body import decode
from sim.api.verbs.call import Call, admitted, approved_by_hooks, received_metadata

SELF, LOCAL = "selfsubjectaccessreviews", "localsubjectaccessreviews"
_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


def review_access(call: Call) -> Steps:
    """POST selfsubjectaccessreviews, subjectaccessreviews, localsubjectaccessreviews."""
    obj = yield from admitted(call, _decoded(call))
    spec = obj.get("spec") or {}
    record = managed.on_create(call.resource.schema, obj, call.writer())
    metadata = {**obj["metadata"], **({"managedFields": managed.render(record, obj)} if record else {})}
    errors = errors_of(call.resource.plural, {**obj, "metadata": metadata})
    if errors:
        raise Refusal.of(status.invalid(call.resource.group, "", "", errors))
    call.registry.rules.check(call, obj, None)
    yield from approved_by_hooks(call, obj, None)
    user = call.request.user if call.resource.plural == SELF else _user_of(spec)
    giver = call.registry.authorizer
    opinion = ALLOWED if giver is None else giver.authorize(user, _attributes_of(spec))
    return _answered(call, {**obj, "metadata": metadata, "status": _status(opinion)})


def review_rules(call: Call) -> Steps:
    """POST selfsubjectrulesreviews.

    Quirk: the answer has neither the metadata nor the spec of the request.
    """
    obj = yield from admitted(call, _decoded(call))
    namespace = (obj.get("spec") or {}).get("namespace")
    if not namespace:
        raise bad_request("no namespace on request")
    call.registry.rules.check(call, obj, None)
    yield from approved_by_hooks(call, obj, None)
    giver = call.registry.user_rules
    rules = UserRules() if giver is None else giver(call.request.user, namespace)
    answer: Obj = {
        "resourceRules": list(rules.resource),
        "nonResourceRules": list(rules.paths),
        "incomplete": rules.incomplete,
        **({"evaluationError": aggregate(rules.errors)} if rules.errors else {}),
    }
    shown = {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": {}, "spec": {}}
    return _answered(call, {**shown, "status": answer})


def _user_of(spec: Obj) -> UserInfo:
    """The user that a review names, with no other groups than those named."""
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return UserInfo(spec.get("user", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""), extra)


def _attributes_of(spec: Obj) -> AccessAttributes:
    resource = spec.get("resourceAttributes")
    if resource is None:
        path = spec["nonResourceAttributes"]  # `errors_of` has found exactly one
        return AccessAttributes(path.get("verb", ""), path.get("path", ""))
    fields = ("group", "version", "resource", "subresource", "namespace", "name")
    return AccessAttributes(
        resource.get("verb", ""), **{field: resource[field] for field in fields if field in resource}
    )


def _status(opinion: Opinion) -> Obj:
    return {
        "allowed": opinion.decision is Decision.ALLOW,
        **({"denied": True} if opinion.decision is Decision.DENY else {}),
        **({"reason": opinion.reason} if opinion.reason else {}),
        **({"evaluationError": opinion.error} if opinion.error else {}),
    }


def errors_of(plural: str, review: Obj) -> list[FieldError]:
    """Errors in an access review."""
    spec, metadata = review.get("spec") or {}, review["metadata"]
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    errors = []
    if resource is not None and path is not None:
        text = "cannot be specified in combination with resourceAttributes"
        errors.append(
            invalid("spec.nonResourceAttributes", GoValue("authorization.NonResourceAttributes", path), text)
        )
    if resource is None and path is None:
        errors.append(invalid("spec.resourceAttributes", None, _ONE_OF))
    if plural != SELF and not spec.get("user") and not spec.get("groups"):
        errors.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    known = ("namespace", "managedFields") if plural == LOCAL else ("managedFields",)
    if any(value for field, value in metadata.items() if field not in known):
        text = "must be empty except for namespace" if plural == LOCAL else "must be empty"
        errors.append(invalid("metadata", GoValue("v1.ObjectMeta", metadata), text))
    if plural == LOCAL:
        if resource is not None and resource.get("namespace", "") != metadata.get("namespace", ""):
            text = "must match metadata.namespace"
            errors.append(invalid("spec.resourceAttributes.namespace", resource.get("namespace", ""), text))
        if path is not None:
            text = "disallowed on this kind of request"
            errors.append(
                invalid(
                    "spec.nonResourceAttributes", GoValue("authorization.NonResourceAttributes", path), text
                )
            )
    return errors


def _decoded(call: Call) -> Obj:
    """The review in the body, in the namespace of the request."""
    obj = decode(call, call.resource)
    return {**obj, "metadata": received_metadata(call, obj)}


def _answered(call: Call, obj: Obj) -> Reply:
    metadata = {"creationTimestamp": None, **obj["metadata"]}
    return Reply(201, body={**obj, "metadata": metadata}, warnings=tuple(call.warnings))
