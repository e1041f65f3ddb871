"""Tokens of service accounts: the answer to a POST of serviceaccounts/token.

The TokenRequest is answered with a JSON web token of upstream's claims and form.

Holds: nothing is stored; the same request at the same instant gets the same token, except where a
served cluster signs with a random key.

Mirrors  kubernetes v1.25 pkg/registry/core/serviceaccount/storage/token.go,
         pkg/apis/authentication/{validation,v1/defaults.go}.
Differs  Inside of a simulation the signature is a digest (`sim.api.auth.web_tokens`); a served
         cluster signs with the key of the server.
"""

from __future__ import annotations

from collections.abc import Generator

from msgspec.structs import replace

from sim.api.auth.account_tokens import EXTENDED_EXPIRATION_S, WARN_ONLY_EXPIRATION_S, bound_claims
from sim.api.ownership import managed
from sim.api.refusals import Refusal, Steps, bad_request
from sim.api.status import invalid_object
from sim.api.store import Answer, Get, Managed, Op
from sim.api.types import Obj, Reply
from sim.api.validation.errors import FieldError, invalid
from sim.api.verbs.body import body_kind, decode
from sim.api.verbs.call import Call, admitted, approved_by_hooks, check_namespace, found
from sim.units import SECOND, format_time

EXPIRATION_S = 3600  # defaults.go: SetDefaults_TokenRequestSpec
EXPIRATION_MIN_S, EXPIRATION_MAX_S = 600, 1 << 32  # validation.go: ValidateTokenRequest

_BINDABLE = {"Pod": "pods", "Secret": "secrets"}


def request_token(call: Call) -> Steps:
    """POST serviceaccounts/NAME/token."""
    kind, name, namespace = body_kind(call), call.request.name, call.request.namespace
    body = decode(call, kind)
    metadata = dict(body.get("metadata") or {})
    check_namespace(metadata, call.request)
    spec = dict(body.get("spec") or {})
    if spec.get("expirationSeconds") is None:
        spec["expirationSeconds"] = EXPIRATION_S
    spec = {"boundObjectRef": None, **spec}
    obj = {**body, "metadata": metadata, "spec": spec}
    writer = replace(call.writer(), api_version=kind.api_version, subresource="token")
    record = tuple(_without_reference(entry) for entry in managed.on_create(kind.schema, obj, writer))
    obj = yield from admitted(call, obj)
    metadata, spec = obj["metadata"], dict(obj["spec"])
    if metadata.get("name") not in (None, "", name):
        text = "must match the service account name if specified"
        _refuse(call, name, invalid("metadata.name", metadata["name"], text))
    account = found((yield Get(call.key)))
    if account is None:
        raise call.not_found()
    issuing = call.registry.issuing
    rules = issuing.tokens
    if not spec.get("audiences"):
        spec["audiences"] = list(rules.audiences)
    _check_expiration(call, spec["expirationSeconds"])
    named = {"name": name, "namespace": namespace, "creationTimestamp": call.now_text}
    yield from approved_by_hooks(call, {**obj, "spec": spec, "metadata": {**metadata, **named}}, None)
    bound = yield from _bound(call, spec["boundObjectRef"])
    wanted_s = _shortened(call, spec["expirationSeconds"], rules.expiration_max_s)
    spec["expirationSeconds"] = wanted_s
    now_us = call.registry.wall_us()
    stale_after_s, expiration_s = 0, wanted_s
    of_pod = bound is not None and bound[0] == "pods"
    for_api = all(each in rules.audiences for each in spec["audiences"])
    if rules.extends and of_pod and for_api and wanted_s == WARN_ONLY_EXPIRATION_S:
        stale_after_s, expiration_s = wanted_s, EXTENDED_EXPIRATION_S
    claims = bound_claims(
        call.registry.names, rules.issuer, account.obj, bound, spec["audiences"], now_us // SECOND,
        expiration_s, stale_after_s,
    )  # fmt: skip
    expires = format_time(now_us + wanted_s * SECOND)
    body = {
        **obj,
        "spec": spec,
        "metadata": {**metadata, **named, "managedFields": managed.render(record, obj)},
        "status": {"token": issuing.sign(claims), "expirationTimestamp": expires},
    }
    return Reply(201, body=body, warnings=tuple(call.warnings))


def _without_reference(entry: Managed) -> Managed:
    """An entry that owns the fields of the reference, but not the reference.

    Upstream compares with an empty TokenRequest, which encodes the reference as null.
    """
    spec = entry.fields.get("f:spec", {})
    reference = dict(spec.get("f:boundObjectRef") or {})
    if "." not in reference:
        return entry
    del reference["."]
    return replace(entry, fields={**entry.fields, "f:spec": {**spec, "f:boundObjectRef": reference}})


def _check_expiration(call: Call, wanted_s: int) -> None:
    """Raise if the expiration is out of bounds."""
    if wanted_s < EXPIRATION_MIN_S:
        text = "may not specify a duration less than 10 minutes"
        _refuse(call, "", invalid("spec.expirationSeconds", wanted_s, text))
    if wanted_s > EXPIRATION_MAX_S:
        text = "may not specify a duration larger than 2^32 seconds"
        _refuse(call, "", invalid("spec.expirationSeconds", wanted_s, text))


def _shortened(call: Call, wanted_s: int, most_s: int) -> int:
    """The expiration within the server's bound, with a warning if that is shorter."""
    if not 0 < most_s < wanted_s:
        return wanted_s
    call.warnings.append(f"requested expiration of {wanted_s} seconds shortened to {most_s} seconds")
    return most_s


def _refuse(call: Call, name: str, error: FieldError) -> None:
    raise Refusal.of(invalid_object(body_kind(call), name, [error]))


def _bound(call: Call, reference: Obj | None) -> Generator[Op, Answer, tuple[str, Obj] | None]:
    """Plural and object that the token is bound to."""
    if reference is None:
        return None
    kind, name = reference.get("kind", ""), reference.get("name", "")
    group, _, version = reference.get("apiVersion", "").rpartition("/")
    resource = None if group else _BINDABLE.get(kind)
    if resource is None:
        raise bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
    known = call.registry.scheme.resource(resource)
    item = found((yield Get(call.registry.scheme.key(known, call.request.namespace, name))))
    if item is None:
        raise Refusal(404, "NotFound", f'{resource} "{name}" not found', {"name": name, "kind": resource})
    account = (item.obj.get("spec") or {}).get("serviceAccountName", "")
    if kind == "Pod" and account != call.request.name:
        raise bad_request(
            f'cannot bind token for serviceaccount "{call.request.name}" to pod running with different '
            f"serviceaccount name."
        )
    uid = item.obj["metadata"]["uid"]
    wanted_uid = reference.get("uid", "")
    if wanted_uid and wanted_uid != uid:
        text = (
            f"the UID in the bound object reference ({wanted_uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        message = f'Operation cannot be fulfilled on {kind} "{name}": {text}'
        raise Refusal(409, "Conflict", message, {"name": name, "kind": kind})
    return resource, item.obj
