"""CertificateSigningRequests.

Holds: spec is that of the create, and the server writes the user into it; approval conditions
change through /approval only, other conditions and the certificate through /status only.

Mirrors  kubernetes v1.25 pkg/apis/certificates/validation/validation.go;
         pkg/registry/certificates/certificates/{strategy,storage}.go;
         pkg/apis/core/validation/validation.go: ValidateSignerName;
         pkg/printers/internalversion/printers.go: printCertificateSigningRequest.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Callable
from typing import NamedTuple

from sim.api.go.differences import difference
from sim.api.go.printing import GoValue
from sim.api.kinds.certificates.pem import certificate_problem, check_signature, parse_request
from sim.api.kinds.common.cells import AGE, NAME, age
from sim.api.objects import get_in, name_of, with_field
from sim.api.schema.json_text import go_quote
from sim.api.schema.kind import STATUS, Cells, Kind, Row, Strategy, Sub
from sim.api.types import Obj, UserInfo
from sim.api.validation import text
from sim.api.validation.errors import (
    Errors,
    duplicate,
    forbidden,
    invalid,
    one_of,
    required,
    too_long,
    unsupported,
)
from sim.api.validation.metadata import object_meta, object_meta_update
from sim.ident import NAMES, Names
from sim.units import SECOND, human_duration

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"


def conditions_of(obj: Obj) -> list[Obj]:
    """The conditions of a request."""
    return get_in(obj, ("status", "conditions")) or []


def has_condition(obj: Obj, type: str) -> bool:
    """True if the request has a condition of the type."""
    return any(condition.get("type") == type for condition in conditions_of(obj))


def request_bytes(obj: Obj, path: tuple[str, ...] = ("spec", "request")) -> bytes | None:
    """The bytes of a field that holds base64; None if it is absent."""
    encoded = get_in(obj, path)
    if encoded is None:
        return None
    try:
        return b64decode(encoded)
    except BadBase64:
        return b""


# --- strategy -------------------------------------------------------------------------------------

_ASKED_BY = ("username", "uid", "groups", "extra")


def _keep_spec(new: Obj, old: Obj, _: Names) -> Obj:
    return with_field(new, "spec", old.get("spec"))


def _prepare_status(new: Obj, old: Obj, _: Names) -> Obj:
    """A write to /status: approval conditions keep their content.

    If it adds or removes one, the conditions stay as they are given, and validation refuses them.
    """
    before, after = conditions_of(old), list(conditions_of(new))
    for type in (APPROVED, DENIED):
        mine = [i for i, condition in enumerate(after) if condition.get("type") == type]
        kept = [condition for condition in before if condition.get("type") == type]
        if len(mine) == len(kept):
            for i, condition in zip(mine, kept, strict=True):
                after[i] = condition
    return _with_conditions(new, after)


def _prepare_approval(new: Obj, old: Obj, names: Names) -> Obj:
    """A write to /approval: only conditions and metadata change."""
    given = conditions_of(new)
    return _with_conditions(with_field(_keep_spec(new, old, names), "status", old.get("status")), given)


def _with_conditions(obj: Obj, conditions: list[Obj]) -> Obj:
    """The object with these conditions; without the list if there are none."""
    status = obj.get("status") or {}
    if status.get("conditions") == (conditions or None) and "status" in obj:
        return obj
    kept = {key: value for key, value in status.items() if key != "conditions"}
    return {**obj, "status": {**kept, "conditions": conditions} if conditions else kept}


def _stamp(new: Obj, old: Obj | None, user: UserInfo, now_text: str) -> Obj:
    """The user of a create; the times of conditions that a write leaves out."""
    if old is None:
        spec = {key: value for key, value in (new.get("spec") or {}).items() if key not in _ASKED_BY}
        if user.name:
            spec["username"] = user.name
        if user.uid:
            spec["uid"] = user.uid
        if user.groups:
            spec["groups"] = list(user.groups)
        if user.extra:
            spec["extra"] = {key: list(values) for key, values in user.extra.items()}
        return {**new, "spec": spec}
    before = conditions_of(old)
    return _with_conditions(new, [_timed(condition, before, now_text) for condition in conditions_of(new)])


def _timed(condition: Obj, before: list[Obj], now_text: str) -> Obj:
    """A condition with both times."""
    if condition.get("lastUpdateTime") and condition.get("lastTransitionTime"):
        return condition
    state = (condition.get("type"), condition.get("status"))
    same = (
        old["lastTransitionTime"]
        for old in before
        if (old.get("type"), old.get("status")) == state and old.get("lastTransitionTime")
    )
    return {
        **condition,
        "lastUpdateTime": condition.get("lastUpdateTime") or now_text,
        "lastTransitionTime": condition.get("lastTransitionTime") or next(same, now_text),
    }


# --- validation -----------------------------------------------------------------------------------

USAGES = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign",
    "data encipherment", "decipher only", "digital signature", "email protection", "encipher only",
    "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement", "key encipherment",
    "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime", "server auth", "signing",
    "timestamping",
)  # fmt: skip

EXPIRATION_MIN_S = 600
_LEGACY_SIGNERS = tuple(dict.fromkeys(names.signer("legacy-unknown") for names in NAMES.values()))
_ALWAYS_TRUE = (APPROVED, DENIED, FAILED)
_DOMAIN_MAX, _SIGNER_MAX = 253, 571


class _Allowed(NamedTuple):
    """What an update may keep because the stored object has it already (getValidationOptions)."""

    both: bool = False
    legacy_signer: bool = False
    repeated_types: bool = False
    empty_type: bool = False
    any_certificate: bool = False
    repeated_usages: bool = False
    unknown_usages: bool = False


def _allowed_by(old: Obj) -> _Allowed:
    spec = old.get("spec") or {}
    types = [condition.get("type", "") for condition in conditions_of(old)]
    usages = spec.get("usages") or ()
    return _Allowed(
        both=APPROVED in types and DENIED in types,
        legacy_signer=spec.get("signerName") in _LEGACY_SIGNERS,
        repeated_types=len(set(types)) < len(types),
        empty_type="" in types,
        any_certificate=bool(certificate_problem(request_bytes(old, ("status", "certificate")) or b"")),
        repeated_usages=len(set(usages)) < len(usages),
        unknown_usages=any(usage not in USAGES for usage in usages),
    )


def _any_name(_: str) -> tuple[str, ...]:
    return ()


def _validate_create(obj: Obj) -> Errors:
    return _errors(obj, _Allowed())


def _errors(obj: Obj, allowed: _Allowed) -> Errors:
    errors = object_meta(obj["metadata"], False, _any_name)
    spec = obj.get("spec") or {}
    errors += _request_errors(obj) + _usage_errors(spec.get("usages") or [], allowed)
    signer = spec.get("signerName") or ""
    if signer in _LEGACY_SIGNERS and not allowed.legacy_signer:
        detail = "the legacy signerName is not allowed via this API version"
        errors.append(invalid("spec.signerName", signer, detail))
    else:
        errors += signer_errors(signer, "spec.signerName")
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < EXPIRATION_MIN_S:
        detail = "may not specify a duration less than 600 seconds (10 minutes)"
        errors.append(invalid("spec.expirationSeconds", seconds, detail))
    errors += _condition_errors(conditions_of(obj), allowed)
    problem = certificate_problem(request_bytes(obj, ("status", "certificate")) or b"")
    if problem and not allowed.any_certificate:
        errors.append(invalid("status.certificate", "<certificate data>", problem))
    return errors


def _request_errors(obj: Obj) -> Errors:
    given = request_bytes(obj)
    try:
        check_signature(parse_request(given or b""))
    except ValueError as error:
        return [invalid("spec.request", GoValue("[]byte", given or None), str(error))]
    return []


def _usage_errors(usages: list[str], allowed: _Allowed) -> Errors:
    at = "spec.usages"
    errors: Errors = [] if usages else [required(at, "usages must be provided")]
    if not allowed.unknown_usages:
        errors += [unsupported(f"{at}[{i}]", u, USAGES) for i, u in enumerate(usages) if u not in USAGES]
    if not allowed.repeated_usages:
        errors += [duplicate(f"{at}[{i}]", u) for i, u in enumerate(usages) if u in usages[:i]]
    return errors


def signer_errors(name: str, at: str) -> Errors:
    """Errors of the name of a signer, such as "example.com/signer-name"."""
    if not name:
        return [required(at, "signerName must be provided")]
    parts = name.split("/")
    if len(parts) != 2:
        detail = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid(at, name, detail)]
    domain, path = parts
    errors: Errors = []
    if len(domain) > _DOMAIN_MAX:
        errors.append(too_long(at, _DOMAIN_MAX))
    errors += _first_bad_label(domain, text.label, at)
    if "." not in domain:
        detail = "should be a domain with at least two segments separated by dots"
        errors.append(invalid(at, domain, detail))
    errors += _first_bad_label(path, text.subdomain, at)
    if len(name) > _SIGNER_MAX:
        errors.append(too_long(at, _SIGNER_MAX))
    return errors


def _first_bad_label(value: str, rule: Callable[[str], tuple[str, ...]], at: str) -> Errors:
    """The errors of the first label that breaks the rule."""
    for label in value.split("."):
        problems = rule(label)
        if problems:
            return [
                invalid(at, value, f"validating label {go_quote(label)}: {problem}") for problem in problems
            ]
    return []


def _condition_errors(conditions: list[Obj], allowed: _Allowed) -> Errors:
    errors: Errors = []
    types: list[str] = []
    for i, condition in enumerate(conditions):
        at = f"status.conditions[{i}]"
        type, status = condition.get("type") or "", condition.get("status") or ""
        if not type and not allowed.empty_type:
            errors.append(required(f"{at}.type"))
        supported = ("True",) if type in _ALWAYS_TRUE else ("False", "True", "Unknown")
        errors += one_of(f"{at}.status", status, supported)
        other = {APPROVED: DENIED, DENIED: APPROVED}.get(type)
        if other in types and not allowed.both:
            detail = "Approved and Denied conditions are mutually exclusive"
            errors.append(invalid(f"{at}.type", type, detail))
        if type in types and not allowed.repeated_types:
            errors.append(duplicate(f"{at}.type", type))
        types.append(type)
    return errors


def _changed_conditions(new: Obj, old: Obj, kind: str) -> str:
    """The difference of the conditions of a type; "" if there is none."""
    after, before = (
        [each for each in get_in(obj, ("status", "conditions")) or () if each.get("type") == kind]
        for obj in (new, old)
    )
    return difference("[]certificates.CertificateSigningRequestCondition", before or None, after or None)


def _validate_update(new: Obj, old: Obj, approving: bool = False, issuing: bool = False) -> Errors:
    """Errors of an update.

    approving, issuing: True for a write that may approve or deny, or set the certificate
    """
    errors = _errors(new, _allowed_by(old))
    at = "status.conditions"
    counts = {type: _count(new, type) - _count(old, type) for type in _ALWAYS_TRUE}
    for type in _ALWAYS_TRUE:
        if counts[type] < 0:
            errors.append(forbidden(at, f'updates may not remove a condition of type "{type}"'))
    if not approving:
        for type in (APPROVED, DENIED):
            if counts[type] > 0:
                errors.append(forbidden(at, f'updates may not add a condition of type "{type}"'))
            elif counts[type] == 0 and (changes := _changed_conditions(new, old, type)):
                detail = f'updates may not modify a condition of type "{type}"\n{changes}'
                errors.append(forbidden(at, detail))
    before, after = (get_in(obj, ("status", "certificate")) or "" for obj in (old, new))
    if before != after:
        if not issuing:
            errors.append(forbidden("status.certificate", "updates may not set certificate content"))
        elif before:
            detail = "updates may not modify existing certificate content"
            errors.append(forbidden("status.certificate", detail))
    return errors + object_meta_update(new["metadata"], old["metadata"])


def _validate_status(new: Obj, old: Obj) -> Errors:
    return _validate_update(new, old, issuing=True)


def _validate_approval(new: Obj, old: Obj) -> Errors:
    return _validate_update(new, old, approving=True)


def _count(obj: Obj, type: str) -> int:
    return sum(condition.get("type") == type for condition in conditions_of(obj))


# --- table ----------------------------------------------------------------------------------------


def _cells(obj: Obj, now_us: int, _: Names) -> Cells:
    spec = obj.get("spec") or {}
    seconds = spec.get("expirationSeconds")
    duration = "<none>" if seconds is None else human_duration(seconds * SECOND)
    return [
        name_of(obj),
        age(obj, now_us),
        spec.get("signerName") or "<none>",
        spec.get("username", ""),
        duration,
        _state(obj),
    ]


def _state(obj: Obj) -> str:
    state = (
        "Denied" if has_condition(obj, DENIED) else "Approved" if has_condition(obj, APPROVED) else "Pending"
    )
    if has_condition(obj, FAILED):
        state += ",Failed"
    return f"{state},Issued" if get_in(obj, ("status", "certificate")) else state


KIND = Kind(
    rows=(
        Row(
            "certificates",
            "v1",
            "certificatesigningrequests",
            "CertificateSigningRequest",
            namespaced=False,
            short=("csr",),
            subs=(Sub("approval", "gpu"), STATUS),
        ),
    ),
    strategy=Strategy(
        status=True,
        stamp=_stamp,
        prepare_update=_keep_spec,
        prepare_status=_prepare_status,
        prepare_subresource={"approval": _prepare_approval},
    ),
    validate_create=_validate_create,
    validate_update={"": _validate_update, "status": _validate_status, "approval": _validate_approval},
    general_metadata=True,
    columns=(
        NAME,
        AGE,
        "SignerName=spec.signerName",
        "Requestor=spec.request",
        "RequestedDuration",
        "Condition=status",
    ),
    cells=_cells,
)
