"""NetworkPolicies: validation of blocks, and the empty status."""

from sim.api.kinds.validation import validate_create
from sim.api.scheme.scheme import Scheme
from sim.ident import NAMES
from tests.unit.sim.api.golden_api import Api, whole

N = NAMES["kubernetes"]

SCHEME = Scheme(N)


def fields(errors):
    return [error.field for error in errors]


def test_exception_of_a_policy_must_lie_within_its_block():
    resource = SCHEME.resource("networkpolicies")

    def excepting(*inside):
        block = {"cidr": "1.2.3.0/24", "except": list(inside)}
        spec = {"podSelector": {}, "ingress": [{"from": [{"ipBlock": block}]}]}
        return fields(validate_create(resource, {"metadata": {"name": "n", "namespace": "a"}, "spec": spec}))

    assert excepting("1.2.3.0/25", "1.2.3.128/32") == []
    at = "spec.ingress[0].from[0].ipBlock.except"
    assert excepting("9.9.9.9/32", "1.2.3.0/24", "x", "y") == [f"{at}[0]", f"{at}[1]", f"{at}[2]"]
    assert excepting("::1/128") == [f"{at}[0]"]


def test_status_of_a_policy_is_owned_by_no_main_write():
    """GetResetFields names it, though PrepareForUpdate keeps it while the feature is off."""
    api = Api()
    policies = "/apis/networking.k8s.io/v1/namespaces/golden-ns/networkpolicies"
    assert api.ask("POST", policies, {"metadata": {"name": "n"}, "spec": {"podSelector": {}}}).code == 201
    condition = {
        "type": "x", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z",
    }  # fmt: skip
    status = {"conditions": [condition]}
    applied = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "n"},
        "status": status,
    }
    apply = "application/apply-patch+yaml"
    assert api.ask("PATCH", f"{policies}/n?fieldManager=a", applied, apply).obj["status"] == {}
    merge = "application/merge-patch+json"
    patched = whole(api.ask("PATCH", f"{policies}/n?fieldManager=b", {"status": status}, merge))
    assert patched["status"] == status
    assert "f:status" not in str(patched["metadata"]["managedFields"])


def test_status_of_a_policy_is_empty_after_every_write():
    api = Api()
    policies = "/apis/networking.k8s.io/v1/namespaces/golden-ns/networkpolicies"
    body = {"metadata": {"name": "n"}, "spec": {"podSelector": {}}}
    assert api.ask("POST", policies, body).obj["status"] == {}
    first = api.ask("GET", f"{policies}/n").obj
    assert api.ask("PUT", f"{policies}/n", body).obj == first
    merge = "application/merge-patch+json"
    assert api.ask("PATCH", f"{policies}/n", {"status": None}, merge).obj == first
    assert (
        api.ask("PATCH", f"{policies}/n/status", {"status": {"conditions": None}}, merge).obj["status"] == {}
    )
