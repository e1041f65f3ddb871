"""The naming sets."""

from sim.ident import NAMES

UPSTREAM = NAMES["kubernetes"]
ORCH = NAMES["orch"]


def test_groups_carry_the_domain_of_their_naming_set():
    assert [UPSTREAM.group(g) for g in ("core", "apps", "discovery", "rbac", "flowcontrol")] == [
        "",
        "apps",
        "discovery.k8s.io",
        "rbac.authorization.k8s.io",
        "flowcontrol.apiserver.k8s.io",
    ]
    assert ORCH.group("discovery") == "discovery.orch.io"
    assert ORCH.group("discovery.orch.io") == "discovery.orch.io"
    assert ORCH.upstream_group("discovery.orch.io") == "discovery.k8s.io"
    assert ORCH.upstream_group("apps") == "apps"
    assert ORCH.short_group("events.orch.io") == "events"


def test_both_sets_hold_the_same_names():
    assert sorted(vars(UPSTREAM)) == sorted(vars(ORCH))


def test_orch_names_never_carry_the_upstream_product():
    texts = [value for value in vars(ORCH).values() if isinstance(value, str)]
    assert len(texts) > 90
    assert not [text for text in texts if "kube" in text or "k8s" in text]


def test_upstream_names_are_upstream():
    assert UPSTREAM.taint_unreachable == "node.kubernetes.io/unreachable"
    assert UPSTREAM.label_zone == "topology.kubernetes.io/zone"
    assert UPSTREAM.user_scheduler == "system:kube-scheduler"
    assert UPSTREAM.media_protobuf == "application/vnd.kubernetes.protobuf"
    assert UPSTREAM.api_version("apps", "v1") == "apps/v1"
    assert UPSTREAM.api_version("core", "v1") == "v1"
    assert UPSTREAM.node_user("n1") == "system:node:n1"
