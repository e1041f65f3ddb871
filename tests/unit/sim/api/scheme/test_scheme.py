"""The kinds of a naming set."""

import pytest

from sim.api.scheme.scheme import NoResource, Scheme
from sim.ident import NAMES

SCHEME = Scheme(NAMES["kubernetes"])


def test_the_same_resources_serve_every_scheme_of_a_naming_set():
    assert Scheme(NAMES["kubernetes"]).resource("pods") is SCHEME.resource("pods")
    assert Scheme(NAMES["orch"]).resource("pods") is not SCHEME.resource("pods")


def test_suffix_distinguishes_ambiguous_plurals():
    assert SCHEME.resource("events").group == ""
    assert SCHEME.resource("events.events.k8s.io").group == "events.k8s.io"
    assert SCHEME.resource("deployments.apps") is SCHEME.resource("deployments")
    with pytest.raises(NoResource, match="there is no resource 'gadgets', or not yet"):
        SCHEME.resource("gadgets")


def test_urls_and_kinds_find_their_resource():
    leases = SCHEME.find("coordination.k8s.io", "v1", "leases")
    assert leases is SCHEME.by_kind("coordination.k8s.io/v1", "Lease")
    assert leases is not None and leases.group_resource == "leases.coordination.k8s.io"
    assert SCHEME.find("coordination.k8s.io", "v2", "leases") is None
    assert SCHEME.by_kind("v1", "Lease") is None


def test_keys_put_the_namespace_between_resource_and_name():
    assert SCHEME.key("pods", "default", "web-1") == "//pods/default/web-1"
    assert SCHEME.key("nodes", "", "node-1") == "//nodes//node-1"
    assert SCHEME.key("nodes", "ignored", "node-1") == "//nodes//node-1"
    assert SCHEME.key("replicasets", "default", "web") == "/apps/replicasets/default/web"
    assert SCHEME.prefix("pods") == "//pods/"
    assert SCHEME.prefix("pods", "default") == "//pods/default/"


def test_both_groups_of_events_share_their_keys():
    assert SCHEME.key("events.events", "ns", "a") == SCHEME.key("events", "ns", "a")


def test_orch_groups_carry_their_domain_and_the_upstream_schema():
    lease = Scheme(NAMES["orch"]).resource("leases")
    assert lease.api_version == "coordination.orch.io/v1"
    assert "holderIdentity" in lease.schema.properties["spec"].properties


@pytest.mark.parametrize("naming", ["orch", "kubernetes"])
def test_every_kind_has_a_schema_and_its_own_prefix(naming):
    resources = Scheme(NAMES[naming]).resources
    assert all(r.schema.type == "object" for r in resources)
    # older forms of what is stored
    others = [r for r in resources if r.version in ("v2beta2", "v1beta1")]
    assert (
        len({r.prefix for r in resources}) == len(resources) - len(others) - 2
    )  # events and autoscalers twice


def test_subresources_have_a_kind():
    scale = SCHEME.resource("deployments").subresource("scale")
    assert scale is not None and (scale.kind, scale.group, scale.verbs) == (
        "Scale",
        "autoscaling",
        ("get", "patch", "update"),
    )
    assert SCHEME.resource("pods").subresource("scale") is None
