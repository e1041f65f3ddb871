"""60 nodes get 600 volumes at the rate that the clients' limits give.

Upstream's limits, and what follows from them:

    attach-detach controller  20 requests a second after a burst of 30; one create per attachment:
                              the last is made (600 - 30) / 20 = 28.5 s after the first
    external-attacher         5 requests a second after a burst of 10; three patches per attachment
                              (a finalizer of the attachment, one of its volume, the status):
                              the last is sent (1800 - 10) / 5 = 358 s after the first
"""

from __future__ import annotations

from sim import Cluster
from sim.api.store import Change
from sim.api.types import Obj
from sim.ident import NAMES
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.scenario.plan.storage import storage_of
from sim.units import MS, SECOND

NAMING = NAMES["orch"]
DISK = "disk.csi.example.com"
NODES, EACH = 60, 10
MERGE = "application/merge-patch+json"


def node(index: int) -> Obj:
    marks = {NAMING.annotation_attach_detach: "true"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{index}", "annotations": marks}}


def volume(index: int, claim_uid: str) -> Obj:
    name = f"v{index}"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "default", "name": name, "uid": claim_uid},
            "csi": {"driver": DISK, "volumeHandle": name},
        },
    }


def claim(index: int) -> Obj:
    spec = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"v{index}", "namespace": "default"},
        "spec": {**spec, "storageClassName": "", "volumeName": f"v{index}"},
    }


def pod(index: int) -> Obj:
    source = {"persistentVolumeClaim": {"claimName": f"v{index}"}}
    containers = [{"name": "c", "image": "i"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p{index}", "namespace": "default"},
        "spec": {
            "nodeName": f"n{index % NODES}",
            "containers": containers,
            "volumes": [{"name": "v", **source}],
        },
    }


def bind_all(c: Cluster, count: int) -> None:
    """Bind each claim to a volume, as another program than the controllers may do."""
    for one in c.list("persistentvolumeclaims"):
        c.apply(volume(int(one["metadata"]["name"][1:]), one["metadata"]["uid"]))
        name, status = one["metadata"]["name"], {"status": {"phase": "Bound"}}
        merge = {"body": status, "content_type": MERGE, "subresource": "status"}
        assert c.request("patch", "persistentvolumeclaims", "default", name, **merge).ok


async def test_volumes_attach_at_the_rate_of_the_clients_limits() -> None:
    count = NODES * EACH
    made: list[int] = []
    attached: list[int] = []

    def see(change: Change) -> None:
        if change.prev is None:
            made.append(change.at_us)
        elif change.item.obj["status"]["attached"] and not change.prev.obj["status"]["attached"]:
            attached.append(change.at_us)

    # Only the controller in question runs: the others would look at 1,200 objects every 15 s.
    plan = ClusterPlan(
        controller_manager=ComponentPlan(flags={"controllers": "attachdetach,serviceaccount"}),
        scheduler=ComponentPlan(replicas=0),
        storage=storage_of([{"driver": DISK, "attachTime": "2s"}], NAMING),
    )
    async with Cluster(plan) as c:
        c.apply(*map(node, range(NODES)), *map(claim, range(count)))
        await c.run_for("10s")
        bind_all(c, count)
        await c.run_for("10s")
        assert c.refused == ()
        c.observe(see, ["volumeattachments"])
        c.apply(*map(pod, range(count)))
        await c.run_for("400s")
    assert (len(made), len(attached)) == (count, count)
    # A request takes up to a millisecond to arrive.
    assert 28.5 * SECOND - MS <= made[-1] - made[0] < 29.5 * SECOND
    assert 358 * SECOND - MS <= attached[-1] - made[0] < 361 * SECOND
