"""NetworkPolicies: validation of blocks, and the empty status."""

from sim.api.kinds.validation import validate_create
from sim.api.schema.scheme import Scheme
from sim.ident import NAMES
from tests.unit.sim.api.golden_api import Api

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
