"""CertificateApproval, CertificateSigning and CertificateSubjectRestriction: rights on signers.

A user approves or signs a request only with the verb approve or sign on its signer, by the name of
the signer or by its domain ("example.com/*").  No request for the signer of API clients may name
the group of administrators.

Mirrors  kubernetes v1.25 plugin/pkg/admission/certificates/{approval,signing,subjectrestriction}
         /admission.go, plugin/pkg/admission/certificates/util.go (IsAuthorizedForSignerName).
"""

from __future__ import annotations

from sim.api.admission.base import Attributes, Denial, Operation, View, forbidden, name_of
from sim.api.auth.attributes import AccessAttributes, Decision
from sim.api.kinds.certificates.certificate_signing_request import request_bytes
from sim.api.kinds.certificates.pem import parse_request, subject
from sim.api.types import Obj
from sim.ident import Names

REQUESTS = "certificatesigningrequests"


class CertificateApproval:
    """Refuses approvals by users without the verb approve on the signer."""

    def judges(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin validates."""
        return (operation, plural, subresource) == ("update", REQUESTS, "approval")

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an object as it would be stored; None if it is allowed."""
        return _check_right(attributes, "approve", view)


class CertificateSigning:
    """Refuses certificates and conditions by users without the verb sign on the signer."""

    def judges(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin validates."""
        return (operation, plural, subresource) == ("update", REQUESTS, "status")

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an object as it would be stored; None if it is allowed."""
        before, after = ((each or {}).get("status") or {} for each in (attributes.old, obj))
        if all(
            (before.get(field) or None) == (after.get(field) or None)
            for field in ("certificate", "conditions")
        ):
            return None
        return _check_right(attributes, "sign", view)


def _check_right(attributes: Attributes, verb: str, view: View) -> Denial | None:
    """The refusal if the user has no such right on the signer of the stored request."""
    signer = ((attributes.old or {}).get("spec") or {}).get("signerName", "")
    giver = attributes.authorizer
    if giver is None:
        return None
    view.mark_volatile()
    for name in (signer, signer.partition("/")[0] + "/*"):
        asked = AccessAttributes(
            verb, group=attributes.resource.group, version="*", resource="signers", name=name
        )
        opinion = giver.authorize(attributes.user, asked)
        if opinion.decision is Decision.ALLOW:
            return None
        if opinion.error:
            break
    text = f'user not permitted to {verb} requests with signerName "{signer}"'
    return forbidden(attributes, text, name_of(attributes, attributes.old or {}))


class CertificateSubjectRestriction:
    """Refuses requests for a certificate of an administrator from the signer of API clients."""

    def __init__(self, names: Names) -> None:
        self._signer = names.signer(names.component("apiserver-client"))
        self._group = names.group_masters

    def judges(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests with objects that the plugin validates."""
        return (operation, plural, subresource) == ("create", REQUESTS, "")

    def validate(self, attributes: Attributes, obj: Obj, view: View) -> Denial | None:
        """The refusal of an object as it would be stored; None if it is allowed."""
        if (obj.get("spec") or {}).get("signerName") != self._signer:
            return None
        name = name_of(attributes, obj)
        try:
            _, organizations = subject(parse_request(request_bytes(obj) or b""))
        except ValueError as error:
            return forbidden(attributes, f"failed to parse CSR: {error}", name)
        if self._group in organizations:
            text = f"use of {self._signer} signer with {self._group} group is not allowed"
            return forbidden(attributes, text, name)
        return None
