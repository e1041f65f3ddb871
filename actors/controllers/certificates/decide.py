"""Decisions about CertificateSigningRequests: which are approved, signed, refused and deleted.

Turns a request, and the time where it matters, into what a controller does.

Mirrors  kubernetes v1.25 pkg/apis/certificates/helpers.go; pkg/controller/certificates/
         {approver/sarapprove,signer/signer,cleaner/cleaner}.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, assert_never

from sim.api.kinds.certificates.certificate_signing_request import (
    APPROVED,
    DENIED,
    FAILED,
    conditions_of,
    has_condition,
    request_bytes,
)
from sim.api.kinds.certificates.pem import blocks, parse_request, subject
from sim.api.objects import get_in, spec_of
from sim.api.types import Obj
from sim.ident import Names
from sim.units import HOUR, MINUTE, SECOND, format_time, parse_time

if TYPE_CHECKING:
    from cryptography import x509


class Signer(Enum):
    """The signers of the cluster; the value names the queue of each."""

    SERVING = "csrsigning-serving"
    AGENT = "csrsigning-agent-client"
    CLIENT = "csrsigning-client"
    LEGACY = "csrsigning-legacy-unknown"


def signer_names(names: Names) -> dict[Signer, str]:
    """The name of each signer in spec.signerName, in the order in which upstream starts them."""
    client = names.signer(names.component("apiserver-client"))
    return {
        Signer.SERVING: names.signer(f"{names.node_agent}-serving"),
        Signer.AGENT: f"{client}-{names.node_agent}",
        Signer.CLIENT: client,
        Signer.LEGACY: names.signer("legacy-unknown"),
    }


class Alternatives(NamedTuple):
    """The alternative names of a request, by type."""

    dns: bool
    email: bool
    ip: bool
    uri: bool


def alternatives(request: x509.CertificateSigningRequest) -> Alternatives:
    """The types of alternative names that a request has."""
    from cryptography import x509

    try:
        found = request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return Alternatives(False, False, False, False)
    types = (x509.DNSName, x509.RFC822Name, x509.IPAddress, x509.UniformResourceIdentifier)
    return Alternatives(*(bool(found.get_values_for_type(type)) for type in types))


# --- what signers accept --------------------------------------------------------------------------

_COMMON_USAGES = ("digital signature", "key encipherment")


def _wrong_usages(usages: Sequence[str], wanted: str) -> str:
    """The problem of usages other than one of authentication with those of keys.

    Encipherment may be missing, as with keys that cannot encipher.
    """
    given = sorted(dict.fromkeys(usages))
    for needed in (sorted((*_COMMON_USAGES, wanted)), sorted((_COMMON_USAGES[0], wanted))):
        if given == needed:
            return ""
    return f"usages did not match [{' '.join(sorted((*_COMMON_USAGES, wanted)))}]"


def serving_problem(request: x509.CertificateSigningRequest, usages: Sequence[str], names: Names) -> str:
    """Why the request is none for a certificate with which a node agent serves; "" if it is one."""
    user, groups = subject(request)
    has = alternatives(request)
    if groups != [names.group_nodes]:
        return f"subject organization is not {names.group_nodes}"
    if not (has.dns or has.ip):
        return "DNS or IP subjectAltName is required"
    if has.email:
        return "Email subjectAltNames are not allowed"
    if has.uri:
        return "URI subjectAltNames are not allowed"
    problem = _wrong_usages(usages, "server auth")
    if problem:
        return problem
    if not user.startswith(names.user_node_prefix):
        return f"subject common name does not begin with {names.user_node_prefix}"
    return ""


def agent_client_problem(request: x509.CertificateSigningRequest, usages: Sequence[str], names: Names) -> str:
    """Why the request is none for the client certificate of a node agent; "" if it is one."""
    user, groups = subject(request)
    has = alternatives(request)
    if groups != [names.group_nodes]:
        return f"subject organization is not {names.group_nodes}"
    shown = (("DNS", has.dns), ("Email", has.email), ("IP", has.ip), ("URI", has.uri))
    for type, given in shown:
        if given:
            return f"{type} subjectAltNames are not allowed"
    if not user.startswith(names.user_node_prefix):
        return f"subject common name does not begin with {names.user_node_prefix}"
    return _wrong_usages(usages, "client auth")


def _client_problem(usages: Sequence[str]) -> str:
    for usage in usages:
        if usage not in (*_COMMON_USAGES, "client auth"):
            return f"invalid usage for client certificate: {usage}"
    if "client auth" not in usages:
        return "missing required usage for client certificate: client auth"
    return ""


def signer_problem(
    signer: Signer, request: x509.CertificateSigningRequest, usages: Sequence[str], names: Names
) -> str:
    """Why a signer refuses a request that is approved; "" if it signs it."""
    match signer:
        case Signer.SERVING:
            return serving_problem(request, usages, names)
        case Signer.AGENT:
            return agent_client_problem(request, usages, names)
        case Signer.CLIENT:
            return _client_problem(usages)
        case Signer.LEGACY:
            return ""
        case _:
            assert_never(signer)


def is_to_be_signed(csr: Obj, signer: str) -> bool:
    """True for an approved request to a signer that was neither refused nor signed."""
    if get_in(csr, ("status", "certificate")) or spec_of(csr).get("signerName") != signer:
        return False
    # Upstream: a denial outweighs an approval.
    return has_condition(csr, APPROVED) and not has_condition(csr, DENIED) and not has_condition(csr, FAILED)


def with_condition(csr: Obj, condition: Obj) -> Obj:
    """The request with one more condition."""
    status = csr.get("status") or {}
    return {**csr, "status": {**status, "conditions": [*conditions_of(csr), condition]}}


def refused(csr: Obj, problem: str, wall_us: int) -> Obj:
    """The request with the condition that its signer refuses it."""
    condition = {
        "type": FAILED,
        "status": "True",
        "reason": "SignerValidationFailure",
        "message": problem,
        "lastUpdateTime": format_time(wall_us),
    }
    return with_condition(csr, condition)


# --- approval -------------------------------------------------------------------------------------


class Recognition(NamedTuple):
    """A kind of request that is approved for users with a right, and the approval's message."""

    subresource: str
    message: str


_SELF = Recognition(
    "selfnodeclient", "Auto approving self {agent} client certificate after SubjectAccessReview."
)
_OTHER = Recognition("nodeclient", "Auto approving {agent} client certificate after SubjectAccessReview.")


def recognitions(csr: Obj, names: Names) -> list[Recognition]:
    """What a request is recognized as, the narrower first; nothing if it is decided already.

    Raises ValueError if the request cannot be parsed.
    """
    if get_in(csr, ("status", "certificate")) or has_condition(csr, APPROVED) or has_condition(csr, DENIED):
        return []
    request, spec = parse_request(request_bytes(csr) or b""), spec_of(csr)
    if spec.get("signerName") != signer_names(names)[Signer.AGENT]:
        return []
    if agent_client_problem(request, spec.get("usages") or (), names):
        return []
    is_own = spec.get("username", "") == subject(request)[0]
    found = [_SELF, _OTHER] if is_own else [_OTHER]
    return [each._replace(message=each.message.format(agent=names.node_agent)) for each in found]


def access_review(csr: Obj, recognition: Recognition, names: Names) -> Obj:
    """The question whether the user of a request may have it approved."""
    spec = spec_of(csr)
    asked = {
        "group": names.group("certificates"),
        "resource": "certificatesigningrequests",
        "subresource": recognition.subresource,
        "verb": "create",
    }
    user = {"user": spec.get("username", ""), "uid": spec.get("uid", ""), "groups": spec.get("groups") or []}
    return {
        "apiVersion": names.api_version("authorization", "v1"),
        "kind": "SubjectAccessReview",
        "spec": {**user, "extra": spec.get("extra") or {}, "resourceAttributes": asked},
    }


def approved(csr: Obj, message: str) -> Obj:
    """The request with an approval."""
    return with_condition(
        csr, {"type": APPROVED, "status": "True", "reason": "AutoApproved", "message": message}
    )


# --- cleaning -------------------------------------------------------------------------------------

CLEANING_PERIOD_US = HOUR
DECIDED_EXPIRATION_US = HOUR
PENDING_EXPIRATION_US = 24 * HOUR


def is_to_be_cleaned(csr: Obj, wall_us: int) -> bool:
    """True for a request that is long decided or ignored, or has an expired certificate."""
    certificate = request_bytes(csr, ("status", "certificate"))
    conditions = conditions_of(csr)
    if not conditions:
        return _is_older(csr["metadata"].get("creationTimestamp"), PENDING_EXPIRATION_US, wall_us)
    for condition in conditions:
        is_old = _is_older(condition.get("lastUpdateTime"), DECIDED_EXPIRATION_US, wall_us)
        type = condition.get("type")
        if type in (DENIED, FAILED) and is_old:
            return True
        if type == APPROVED and certificate and (is_old or is_expired(certificate, wall_us)):
            return True
    return False


def _is_older(moment: str | None, age_us: int, wall_us: int) -> bool:
    return moment is not None and wall_us - parse_time(moment) > age_us


def is_expired(certificate: bytes, wall_us: int) -> bool:
    """True if the first certificate is no longer valid; False if there is none."""
    block = next(blocks(certificate), None)
    if block is None:
        return False
    from cryptography import x509

    try:
        end = x509.load_der_x509_certificate(block.der).not_valid_after_utc
    except ValueError:
        return False
    return wall_us > int(end.timestamp()) * SECOND


# --- duration -------------------------------------------------------------------------------------

_DURATION_MIN_US = 10 * MINUTE


def duration_us(csr: Obj, most_us: int) -> int:
    """How long the certificate of a request is valid.

    most_us: the option cluster-signing-duration
    """
    seconds = spec_of(csr).get("expirationSeconds")
    if seconds is None or seconds * SECOND > most_us:
        return most_us
    return max(int(seconds) * SECOND, _DURATION_MIN_US)
