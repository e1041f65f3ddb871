"""CertificateSigningRequests: what each write may change, validation, table."""

from __future__ import annotations

from base64 import b64encode

import pytest

from sim.api.kinds.tables import row
from sim.api.kinds.validation import validate_update
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj, Reply, UserInfo
from sim.ident import NAMES
from tests.unit.sim.api.golden_api import Api, whole
from tests.unit.sim.api.kinds.certificates.requests import csr, request_pem

PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
MERGE = "application/merge-patch+json"
NOW = "2023-11-14T22:13:20Z"


@pytest.fixture
def api() -> Api:
    return Api()


def patched(api: Api, subresource: str, **status: object) -> Reply:
    return api.ask("PATCH", f"{PATH}/c{subresource}", {"status": status}, MERGE)


def test_requester_of_a_create_is_the_user_and_not_what_is_given(api: Api) -> None:
    api.user = UserInfo("jane", ("dev",), "u1", {"k": ("v",)})
    made = api.ask("POST", PATH, csr(username="other", uid="x", groups=["g"], extra={"a": ["b"]})).obj
    spec = made["spec"]
    assert (spec["username"], spec["uid"], spec["groups"], spec["extra"]) == (
        "jane",
        "u1",
        ["dev"],
        {"k": ["v"]},
    )
    api.user = UserInfo("bob", ("dev",))
    second = {**csr(uid="x", extra={"a": ["b"]}), "metadata": {"name": "d"}}
    assert not {"uid", "extra"} & api.ask("POST", PATH, second).obj["spec"].keys()


def test_spec_and_created_status_of_a_request_are_fixed(api: Api) -> None:
    given = {**csr(), "status": {"conditions": [{"type": "Approved", "status": "True"}]}}
    assert api.ask("POST", PATH, given).obj["status"] == {}
    changed = api.ask("PATCH", f"{PATH}/c", {"spec": {"usages": ["any"]}}, MERGE).obj
    assert changed["spec"]["usages"] == ["client auth"]


def test_approval_sets_conditions_with_their_times_only(api: Api) -> None:
    api.ask("POST", PATH, csr())
    condition = {"type": "Approved", "status": "True"}
    approved = patched(api, "/approval", conditions=[condition], certificate="eA==").obj
    times = {"lastUpdateTime": NOW, "lastTransitionTime": NOW}
    assert approved["status"] == {"conditions": [{**condition, **times}]}


def test_status_keeps_the_content_of_an_approval(api: Api) -> None:
    api.ask("POST", PATH, csr())
    patched(api, "/approval", conditions=[{"type": "Approved", "status": "True", "reason": "R"}])
    failed = {"type": "Failed", "status": "True"}
    written = patched(api, "/status", conditions=[{"type": "Approved", "status": "True"}, failed]).obj
    assert written["status"]["conditions"][0]["reason"] == "R"
    assert written["status"]["conditions"][1]["lastTransitionTime"] == NOW


@pytest.mark.parametrize(
    ("subresource", "conditions", "text"),
    [
        ("/status", [], 'updates may not remove a condition of type "Approved"'),
        ("/approval", [], 'updates may not remove a condition of type "Approved"'),
        (
            "/status",
            [{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}],
            'updates may not add a condition of type "Denied"',
        ),
    ],
)
def test_approval_conditions_are_only_added_through_approval(
    api: Api, subresource: str, conditions: list[Obj], text: str
) -> None:
    api.ask("POST", PATH, csr())
    patched(api, "/approval", conditions=[{"type": "Approved", "status": "True"}])
    refused = patched(api, subresource, conditions=conditions)
    assert refused.code == 422 and text in refused.message


def test_approval_condition_is_not_modified_by_others() -> None:
    resource = Scheme(NAMES["kubernetes"]).resource("certificatesigningrequests")
    old, new = (
        {**csr(), "status": {"conditions": [{"type": "Approved", "status": "True", "reason": reason}]}}
        for reason in ("a", "b")
    )
    details = [error.detail for error in validate_update(resource, new, old, "")]
    head = 'updates may not modify a condition of type "Approved"\n'
    assert head + "  []certificates.CertificateSigningRequestCondition{\n" in "".join(details)
    assert '+ \t\tReason:             "b",' in "".join(details).splitlines()


def test_certificate_is_set_once_and_must_be_a_certificate(api: Api) -> None:
    api.ask("POST", PATH, csr())
    wrong = b64encode(request_pem()).decode()
    found = 'only CERTIFICATE PEM blocks are allowed, found "CERTIFICATE REQUEST"'
    assert found in patched(api, "/status", certificate=wrong).message
    assert (
        "must contain at least one CERTIFICATE PEM block"
        in patched(api, "/status", certificate="eA==").message
    )


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"request": "bm8="},
            "Invalid value: []byte{0x6e, 0x6f}: PEM block type must be CERTIFICATE REQUEST",
        ),
        ({"usages": ["fly"]}, 'spec.usages[0]: Unsupported value: "fly"'),
        ({"usages": ["any", "any"]}, 'spec.usages[1]: Duplicate value: "any"'),
        ({"signerName": "x"}, "must be a fully qualified domain and path"),
        ({"signerName": "kubernetes.io/legacy-unknown"}, "the legacy signerName is not allowed"),
        ({"expirationSeconds": 599}, "may not specify a duration less than 600 seconds"),
    ],
)
def test_spec_of_a_request_is_validated(api: Api, spec: Obj, text: str) -> None:
    refused = api.ask("POST", PATH, csr(**spec))
    assert refused.code == 422 and text in refused.message


def test_request_with_a_forged_signature_is_refused(api: Api) -> None:
    lines = request_pem().decode().splitlines()
    last = lines[-2]
    flipped = "A" if last[10] != "A" else "B"
    lines[-2] = last[:10] + flipped + last[11:]
    refused = api.ask("POST", PATH, csr("\n".join(lines).encode()))
    assert refused.code == 422 and "spec.request" in refused.message


def test_writer_of_a_request_owns_none_of_its_fixed_fields(api: Api) -> None:
    made = api.ask("POST", PATH, {**csr(), "metadata": {"name": "c", "labels": {"a": "b"}}})
    (entry,) = whole(made)["metadata"]["managedFields"]
    assert list(entry["fieldsV1"]) == ["f:metadata"]


def test_table_shows_requester_duration_and_state(api: Api) -> None:
    api.ask("POST", PATH, csr(expirationSeconds=3600))
    denied = patched(api, "/approval", conditions=[{"type": "Denied", "status": "True"}]).obj
    resource = api.scheme.resource("certificatesigningrequests")
    cells = row(resource, denied, 1_700_000_060_000_000, NAMES["kubernetes"])["cells"]
    assert cells == ["c", "60s", "example.com/s", "admin", "60m", "Denied"]
