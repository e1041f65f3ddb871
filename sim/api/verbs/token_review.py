"""Token reviews: which user a bearer token belongs to.

The answer is the review with a status.

Holds: nothing is stored; a token is judged as if a request had presented it.

Mirrors  kubernetes v1.25 pkg/registry/authentication/tokenreview/storage.go.
Differs  a cluster that no client from outside can reach has no authenticator; it answers with an
         empty status, as a server of upstream's without authenticators does.
"""

from __future__ import annotations

from sim.api.auth.authenticator import Judged, Pending, Rejected
from sim.api.ownership import managed
from sim.api.refusals import Steps, bad_request
from sim.api.types import Obj, Reply, UserInfo
from sim.api.verbs.body import decode
from sim.api.verbs.call import Call, admitted, approved_by_hooks, received_metadata


def review_token(call: Call) -> Steps:
    """POST tokenreviews."""
    given = decode(call, call.resource)
    given = {**given, "metadata": received_metadata(call, given)}
    record = managed.on_create(call.resource.schema, given, call.writer())
    obj = yield from admitted(call, given)
    spec, metadata = obj.get("spec") or {}, obj.get("metadata") or {}
    if not spec.get("token"):
        raise bad_request("token is required for TokenReview in authentication")
    yield from approved_by_hooks(call, obj, None)
    authenticator = call.registry.authenticator
    status: Obj = {"user": {}, **(obj.get("status") or {})}
    if authenticator is not None:
        found = authenticator.review(spec["token"], tuple(spec.get("audiences") or ()))
        status = status_of(found, status)
    shown = {"creationTimestamp": None, **metadata, "managedFields": managed.render(record, obj)}
    body = {**obj, "metadata": shown, "spec": spec, "status": status}
    return Reply(201, body=body, warnings=tuple(call.warnings))


def status_of(found: Judged, given: Obj) -> Obj:
    """The status of a review; what it does not decide stays as it was sent."""
    if isinstance(found, Pending):  # only of a request that did not come through a front
        found = Rejected((f"the answer of {found.source} is not there",))
    decided: Obj = {"authenticated": None}
    if not isinstance(found, Rejected):
        audiences = list(found.audiences) or None
        decided = {"authenticated": True, "user": shown_user(found.user), "audiences": audiences}
    elif found.text:
        decided["error"] = found.text
    return {key: value for key, value in {**given, **decided}.items() if value is not None}


def shown_user(user: UserInfo) -> Obj:
    """A user as reviews show it, without empty fields."""
    extra = {key: list(values) for key, values in user.extra.items()}
    fields = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    return {key: value for key, value in fields.items() if value}
