"""Access reviews: whether a user may perform an action, and what the caller may do.

The answer is the review with a status.

Holds: nothing is stored.

Mirrors  kubernetes v1.25 pkg/registry/authorization/*/rest.go, pkg/apis/authorization/validation.
Differs  answers come from `authorizer`, which knows no roles: they give no reason, and each user
         that a review names counts as authenticated.
"""

from __future__ import annotations

from sim.api import status
from sim.api.auth.authorizer import may, rules_of
from sim.api.kinds.common.errors import FieldError, invalid
from sim.api.ownership import managed
from sim.api.types import Obj, Reply, UserInfo
from sim.api.verbs.body import decode
from sim.api.verbs.call import Call, Refusal, Steps, bad_request, check_namespace

SELF, LOCAL = "selfsubjectaccessreviews", "localsubjectaccessreviews"
_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


def review_access(call: Call) -> Steps:
    """POST selfsubjectaccessreviews, subjectaccessreviews, localsubjectaccessreviews."""
    obj = _decoded(call)
    spec = obj.get("spec") or {}
    errors = errors_of(call.resource.plural, obj)
    if errors:
        raise Refusal.of(status.invalid(call.resource.group, "", "", errors))
    yield from ()
    names = call.registry.names
    if call.resource.plural == SELF:
        user = call.request.user
    else:
        groups = tuple(spec.get("groups") or ())
        if spec.get("user") != names.user_anonymous and names.group_authenticated not in groups:
            groups = (*groups, names.group_authenticated)
        user = UserInfo(spec.get("user", ""), groups)
    attributes = spec.get("resourceAttributes")
    path = None if attributes is not None else spec["nonResourceAttributes"].get("path", "")
    verb = (attributes or spec.get("nonResourceAttributes") or {}).get("verb", "")
    return _answered(call, obj, {"allowed": may(names, user, verb, path)})


def review_rules(call: Call) -> Steps:
    """POST selfsubjectrulesreviews."""
    obj = _decoded(call)
    if not (obj.get("spec") or {}).get("namespace"):
        raise bad_request("no namespace on request")
    yield from ()
    return _answered(call, obj, rules_of(call.registry.names, call.request.user))


def errors_of(plural: str, review: Obj) -> list[FieldError]:
    """Errors in an access review."""
    spec, metadata = review.get("spec") or {}, review["metadata"]
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    errors = []
    if resource is not None and path is not None:
        text = "cannot be specified in combination with resourceAttributes"
        errors.append(invalid("spec.nonResourceAttributes", path, text))
    if resource is None and path is None:
        errors.append(invalid("spec.resourceAttributes", None, _ONE_OF))
    if plural != SELF and not spec.get("user") and not spec.get("groups"):
        errors.append(invalid("spec.user", "", "at least one of user or group must be specified"))
    known = (
        ("namespace", "creationTimestamp", "managedFields")
        if plural == LOCAL
        else ("creationTimestamp", "managedFields")
    )
    if any(value for field, value in metadata.items() if field not in known):
        text = "must be empty except for namespace" if plural == LOCAL else "must be empty"
        errors.append(invalid("metadata", metadata, text))
    if plural == LOCAL:
        if resource is not None and resource.get("namespace", "") != metadata.get("namespace", ""):
            text = "must match metadata.namespace"
            errors.append(invalid("spec.resourceAttributes.namespace", resource.get("namespace", ""), text))
        if path is not None:
            errors.append(invalid("spec.nonResourceAttributes", path, "disallowed on this kind of request"))
    return errors


def _decoded(call: Call) -> Obj:
    """The review in the body, in the namespace of the request."""
    obj = decode(call, call.resource)
    metadata, namespace = dict(obj.get("metadata") or {}), call.request.namespace
    check_namespace(metadata, call.request)
    if namespace:
        metadata["namespace"] = namespace
    return {**obj, "metadata": metadata}


def _answered(call: Call, obj: Obj, answer: Obj) -> Reply:
    record = managed.on_create(call.resource.schema, obj, call.writer())
    shown = {"creationTimestamp": None, **obj["metadata"], "managedFields": managed.render(record, obj)}
    return Reply(201, body={**obj, "metadata": shown, "status": answer}, warnings=tuple(call.warnings))
