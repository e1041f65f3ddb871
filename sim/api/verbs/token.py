"""Tokens of service accounts: the answer to a POST of serviceaccounts/token.

The TokenRequest is answered with a JSON web token of upstream's claims and form.

Holds: nothing is stored; the same request at the same instant gets the same token.

Mirrors  kubernetes v1.25 pkg/registry/core/serviceaccount/storage/token.go,
         pkg/apis/authentication/validation, pkg/serviceaccount/claims.go.
Differs  the signature is a digest: it has the length of RS256's, and no key can verify it. For
         clients outside of the simulation `sim.api.auth.account_tokens` replaces the signature.
"""

from __future__ import annotations

from collections.abc import Generator

from msgspec.structs import replace

from sim.api.auth.digest_tokens import digest_token
from sim.api.kinds.common.errors import FieldError, invalid
from sim.api.ownership import managed
from sim.api.status import invalid_object
from sim.api.store import Answer, Get, Op
from sim.api.types import Obj, Reply
from sim.api.verbs.body import body_kind, decode
from sim.api.verbs.call import Call, Refusal, Steps, admitted, bad_request, check_namespace, found
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
    spec = {"boundObjectRef": None, "expirationSeconds": EXPIRATION_S, **(body.get("spec") or {})}
    obj = {**body, "metadata": metadata, "spec": spec}
    writer = replace(call.writer(), api_version=kind.api_version, subresource="token")
    record = managed.on_create(kind.schema, obj, writer)
    obj = yield from admitted(call, obj)
    if metadata.get("name") not in (None, "", name):
        text = "must match the service account name if specified"
        _refuse(call, name, invalid("metadata.name", metadata["name"], text))
    account = found((yield Get(call.key)))
    if account is None:
        raise call.not_found()
    wanted_s = spec["expirationSeconds"]
    if wanted_s < EXPIRATION_MIN_S:
        text = "may not specify a duration less than 10 minutes"
        _refuse(call, "", invalid("spec.expirationSeconds", wanted_s, text))
    if wanted_s > EXPIRATION_MAX_S:
        text = "may not specify a duration larger than 2^32 seconds"
        _refuse(call, "", invalid("spec.expirationSeconds", wanted_s, text))
    if not spec.get("audiences"):
        spec["audiences"] = [_issuer(call)]
    claims = {"serviceaccount": {"name": name, "uid": account.obj["metadata"]["uid"]}}
    claims.update((yield from _bound(call, spec["boundObjectRef"])))
    now_us = call.registry.wall_us()
    token = _token(call, spec, claims, now_us // SECOND)
    shown = {"name": name, "namespace": namespace, "creationTimestamp": call.now_text}
    body = {
        **obj,
        "metadata": {**metadata, **shown, "managedFields": managed.render(record, obj)},
        "status": {"token": token, "expirationTimestamp": format_time(now_us + wanted_s * SECOND)},
    }
    return Reply(201, body=body, warnings=tuple(call.warnings))


def _refuse(call: Call, name: str, error: FieldError) -> None:
    raise Refusal.of(invalid_object(body_kind(call), name, [error]))


def _issuer(call: Call) -> str:
    return f"https://{call.registry.names.apiserver_service}.default.svc.cluster.local"


def _bound(call: Call, reference: Obj | None) -> Generator[Op, Answer, Obj]:
    """The claims of the object that the token is bound to."""
    if reference is None:
        return {}
    kind, name = reference.get("kind", ""), reference.get("name", "")
    resource = _BINDABLE.get(kind)
    if resource is None:
        group, _, version = reference.get("apiVersion", "").rpartition("/")
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
    return {kind.lower(): {"name": name, "uid": uid}}


def _token(call: Call, spec: Obj, claims: Obj, now_s: int) -> str:
    names, request = call.registry.names, call.request
    issuer = _issuer(call)
    payload = {
        "aud": spec["audiences"],
        "exp": now_s + spec["expirationSeconds"],
        "iat": now_s,
        "iss": issuer,
        names.domain: {"namespace": request.namespace, **claims},
        "nbf": now_s,
        "sub": names.service_account_user(request.namespace, request.name),
    }
    return digest_token(payload)
