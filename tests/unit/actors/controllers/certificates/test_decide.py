"""Which CertificateSigningRequests are approved, signed, refused and deleted."""

from __future__ import annotations

from base64 import b64encode

import pytest

from actors.controllers.certificates.decide import (
    Signer,
    access_review,
    duration_us,
    is_to_be_cleaned,
    is_to_be_signed,
    recognitions,
    signer_names,
    signer_problem,
)
from actors.controllers.certificates.issue import issue, stand_in
from sim.api.kinds.certificates.pem import parse_request
from sim.api.types import Obj
from sim.ident import NAMES
from sim.units import HOUR, MINUTE, SECOND, format_time
from tests.unit.sim.api.kinds.certificates.requests import csr, request_pem

N = NAMES["kubernetes"]
AGENT, SERVING = signer_names(N)[Signer.AGENT], signer_names(N)[Signer.SERVING]
NODES = ("system:nodes",)
NODE = "system:node:n1"
NOW = 1_700_000_000 * SECOND
CLIENT_USAGES = ["client auth", "digital signature", "key encipherment"]


def node_csr(**spec: object) -> Obj:
    return csr(request_pem(NODE, NODES), signerName=AGENT, usages=CLIENT_USAGES, **spec)


def conditioned(*types: str, obj: Obj | None = None, at_us: int = NOW, **status: object) -> Obj:
    conditions = [{"type": type, "status": "True", "lastUpdateTime": format_time(at_us)} for type in types]
    return {**(obj or csr()), "status": {"conditions": conditions, **status}}


@pytest.mark.parametrize(
    ("signer", "user", "groups", "hosts", "usages", "problem"),
    [
        (Signer.AGENT, NODE, NODES, (), CLIENT_USAGES, ""),
        (Signer.AGENT, NODE, NODES, (), ["client auth", "digital signature"], ""),
        (Signer.AGENT, NODE, ("dev",), (), CLIENT_USAGES, "subject organization is not system:nodes"),
        (Signer.AGENT, NODE, NODES, ("a.b",), CLIENT_USAGES, "DNS subjectAltNames are not allowed"),
        (Signer.AGENT, NODE, NODES, ("10.0.0.1",), CLIENT_USAGES, "IP subjectAltNames are not allowed"),
        (Signer.AGENT, "n1", NODES, (), CLIENT_USAGES, "subject common name does not begin with system:node:"),
        (
            Signer.AGENT, NODE, NODES, (), ["client auth"],
            "usages did not match [client auth digital signature key encipherment]",
        ),
        (Signer.SERVING, NODE, NODES, (), ["server auth"], "DNS or IP subjectAltName is required"),
        (Signer.SERVING, NODE, NODES, ("10.0.0.1",), ["server auth", "digital signature"], ""),
        (Signer.CLIENT, "jane", (), (), ["client auth"], ""),
        (Signer.CLIENT, "jane", (), (), ["server auth"], "invalid usage for client certificate: server auth"),
        (
            Signer.CLIENT, "jane", (), (), ["digital signature"],
            "missing required usage for client certificate: client auth",
        ),
        (Signer.LEGACY, "jane", (), ("a.b",), ["any"], ""),
    ],
)  # fmt: skip
def test_signer_accepts_or_refuses(
    signer: Signer,
    user: str,
    groups: tuple[str, ...],
    hosts: tuple[str, ...],
    usages: list[str],
    problem: str,
) -> None:
    request = parse_request(request_pem(user, groups, hosts))
    assert signer_problem(signer, request, usages, N) == problem


def test_own_request_of_a_node_is_recognized_twice() -> None:
    own = recognitions(node_csr(username=NODE), N)
    assert [each.subresource for each in own] == ["selfnodeclient", "nodeclient"]
    assert own[0].message == "Auto approving self kubelet client certificate after SubjectAccessReview."
    others = recognitions(node_csr(username="bootstrap"), N)
    assert [each.subresource for each in others] == ["nodeclient"]
    review = access_review(node_csr(username="bootstrap", groups=["g"]), others[0], N)["spec"]
    assert (review["user"], review["groups"]) == ("bootstrap", ["g"])
    assert review["resourceAttributes"]["subresource"] == "nodeclient"


def test_other_and_decided_requests_are_not_approved() -> None:
    assert recognitions(csr(), N) == []
    assert recognitions(conditioned("Denied", obj=node_csr(username=NODE)), N) == []


@pytest.mark.parametrize(
    ("types", "is_signed"),
    [
        (("Approved",), True),
        ((), False),
        (("Approved", "Denied"), False),
        (("Approved", "Failed"), False),
    ],
)
def test_approved_request_is_signed_once(types: tuple[str, ...], is_signed: bool) -> None:
    assert is_to_be_signed(conditioned(*types), "example.com/s") is is_signed
    assert not is_to_be_signed(conditioned(*types), "example.com/other")
    assert not is_to_be_signed(conditioned(*types, certificate="eA=="), "example.com/s")


@pytest.mark.parametrize(
    ("types", "age_us", "is_cleaned"),
    [
        (("Denied",), HOUR, False),
        (("Denied",), HOUR + SECOND, True),
        (("Failed",), HOUR + SECOND, True),
        (("Approved",), HOUR + SECOND, False),
        (("Other",), 48 * HOUR, False),
    ],
)
def test_decided_request_is_deleted_after_an_hour(
    types: tuple[str, ...], age_us: int, is_cleaned: bool
) -> None:
    assert is_to_be_cleaned(conditioned(*types, at_us=NOW - age_us), NOW) is is_cleaned


def test_request_without_an_answer_is_deleted_after_a_day() -> None:
    ignored = {**csr(), "metadata": {"name": "c", "creationTimestamp": format_time(NOW - 24 * HOUR)}}
    assert not is_to_be_cleaned(ignored, NOW)
    assert is_to_be_cleaned(ignored, NOW + SECOND)


def test_request_is_deleted_once_its_certificate_has_expired() -> None:
    made = issue(stand_in("ca", 5, NOW), parse_request(request_pem()), ["client auth"], 10 * MINUTE, NOW)
    signed = conditioned("Approved", certificate=b64encode(made).decode())
    assert not is_to_be_cleaned(signed, NOW + 10 * MINUTE)
    assert is_to_be_cleaned(signed, NOW + 10 * MINUTE + SECOND)


@pytest.mark.parametrize(
    ("wanted_s", "given_us"), [(None, HOUR), (7200, HOUR), (900, 900 * SECOND), (60, 10 * MINUTE)]
)
def test_duration_is_bounded_by_the_option_and_ten_minutes(wanted_s: int | None, given_us: int) -> None:
    wanted = {} if wanted_s is None else {"expirationSeconds": wanted_s}
    assert duration_us(csr(**wanted), HOUR) == given_us
