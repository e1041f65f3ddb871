"""Static pods and their mirrors."""

from actors.node.sources.mirrors import mirror_of, static_pod
from sim.ident import NAMES


def test_static_pod_gets_defaults_that_the_api_would_not_set() -> None:
    names = NAMES["kubernetes"]
    toleration = {"key": "mine", "operator": "Exists"}
    manifest = {"metadata": {"name": "proxy"}, "spec": {"containers": [], "tolerations": [toleration]}}
    made = static_pod(manifest, "Node-1", names, 7)
    meta, uid = made["metadata"], made["metadata"]["uid"]
    assert (meta["name"], meta["namespace"]) == ("proxy-node-1", "default") and len(uid) == 32
    assert meta["annotations"] == {
        "kubernetes.io/config.hash": uid,
        "kubernetes.io/config.source": "file",
        "kubernetes.io/config.seen": "1970-01-01T00:00:00.000007000Z",
    }
    assert made["spec"]["nodeName"] == "Node-1"
    assert made["spec"]["tolerations"] == [toleration, {"operator": "Exists", "effect": "NoExecute"}]
    assert static_pod(manifest, "Node-1", names, 8)["metadata"]["uid"] == uid
    assert static_pod(manifest, "Node-2", names, 7)["metadata"]["uid"] != uid
    own = {"metadata": {"name": "proxy", "namespace": "system", "uid": "own"}, "spec": {"containers": []}}
    assert static_pod(own, "n", names, 7)["metadata"]["annotations"]["kubernetes.io/config.hash"] == "own"
    mirror = mirror_of(made, {"metadata": {"name": "Node-1", "uid": "node"}}, names)
    assert mirror["metadata"]["annotations"] == {**meta["annotations"], "kubernetes.io/config.mirror": uid}
    assert "uid" not in mirror["metadata"] and mirror["spec"] == made["spec"]
    assert mirror["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "Node-1", "uid": "node", "controller": True}
    ]
