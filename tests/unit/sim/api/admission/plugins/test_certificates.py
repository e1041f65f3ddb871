"""Rights on signers: approval, signing, and the group of administrators."""

from __future__ import annotations

import pytest

from sim.api.admission.plugins.certificates import (
    CertificateApproval,
    CertificateSigning,
    CertificateSubjectRestriction,
)
from sim.api.auth.attributes import NO_OPINION, AccessAttributes, Decision, Opinion
from sim.api.types import UserInfo
from sim.ident import NAMES
from tests.unit.sim.api.admission.test_chain import FakeView, asks
from tests.unit.sim.api.kinds.certificates.requests import csr, request_pem

REQUESTS = "certificatesigningrequests"
CLIENTS = "kubernetes.io/kube-apiserver-client"


class Rights:
    """Allows the verbs on signers that it was given."""

    def __init__(self, *allowed: tuple[str, str]) -> None:
        self.allowed = allowed

    def authorize(self, user: UserInfo, attributes: AccessAttributes) -> Opinion:
        assert (attributes.group, attributes.resource) == ("certificates.k8s.io", "signers")
        asked = (attributes.verb, attributes.name)
        return Opinion(Decision.ALLOW) if asked in self.allowed else NO_OPINION


@pytest.mark.parametrize(
    ("right", "is_allowed"),
    [
        (("approve", "example.com/s"), True),
        (("approve", "example.com/*"), True),
        (("sign", "example.com/s"), False),
        (("approve", "example.org/s"), False),
    ],
)
def test_approval_needs_the_right_on_the_stored_signer(right: tuple[str, str], is_allowed: bool) -> None:
    asked = asks(REQUESTS, "update", "", subresource="approval", old=csr(), authorizer=Rights(right))
    denial = CertificateApproval().validate(asked, csr(signerName="example.org/s"), FakeView())
    assert (denial is None) is is_allowed
    text = 'is forbidden: user not permitted to approve requests with signerName "example.com/s"'
    if denial is not None:
        assert denial.message.endswith(text)


def test_signing_right_is_needed_for_changes_of_the_status_only() -> None:
    plugin, old = CertificateSigning(), {**csr(), "status": {}}
    asked = asks(REQUESTS, "update", "", subresource="status", old=old, authorizer=Rights())
    assert plugin.validate(asked, {**old, "status": {"conditions": []}}, FakeView()) is None
    denial = plugin.validate(asked, {**old, "status": {"certificate": "eA=="}}, FakeView())
    assert denial is not None and "user not permitted to sign requests" in denial.message
    assert not plugin.judges("update", REQUESTS, "approval")


def test_client_certificate_of_the_administrators_group_is_refused() -> None:
    plugin = CertificateSubjectRestriction(NAMES["kubernetes"])
    masters = request_pem("bob", ("dev", "system:masters"))
    asked = asks(REQUESTS, "create", "", name="c")
    denial = plugin.validate(asked, csr(masters, signerName=CLIENTS), FakeView())
    text = f"use of {CLIENTS} signer with system:masters group is not allowed"
    assert denial is not None and denial.message == f'{REQUESTS}.certificates.k8s.io "c" is forbidden: {text}'
    assert plugin.validate(asked, csr(masters), FakeView()) is None
    assert plugin.validate(asked, csr(signerName=CLIENTS), FakeView()) is None
