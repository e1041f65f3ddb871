"""The scheduler's plugins that read volumes: upstream's reasons, in upstream's order."""

import pytest

from actors.scheduler.attempt import Attempts, Failed, Placed
from actors.scheduler.plugins.base import ClusterEvent
from actors.scheduler.plugins.registry import Profile
from actors.scheduler.volumes.binding import Bindings, progress, reserve, unreserve
from actors.scheduler.volumes.storage import (
    CAPACITIES,
    CLAIMS,
    CLASSES,
    CSI_DRIVERS,
    CSI_NODES,
    VOLUMES,
    Storage,
)
from sim.ident import NAMES
from sim.options.features.gates import OF_VOLUMES
from tests.unit.actors.scheduler.test_attempt import World, victims
from tests.unit.sim.api.kinds.common.volumes.test_binding import claim, on, volume

N = NAMES["orch"]
HELPLESS = "preemption: 0/{n} nodes are available: {n} Preemption is not helpful for scheduling."


class Table(dict):
    """The objects of one resource as an informer shows them."""

    def list(self):
        return [self[key] for key in sorted(self)]


class Disks(World):
    """Two nodes in two zones, claims and volumes."""

    def __init__(self, gates=()):
        super().__init__()
        self.tables = {r: Table() for r in (CLAIMS, VOLUMES, CLASSES, CSI_NODES, CSI_DRIVERS, CAPACITIES)}
        self.storage = Storage(N, self.tables)
        self.attempts = Attempts(self.cluster, 0, (), self.storage, gates)
        for name in "ab":
            self.node(name, **{N.label_zone: name})

    def claim(self, name="c", bound="", **spec):
        obj = claim(name=name, **spec)
        obj["metadata"].update(namespace="default", annotations={})
        if bound:
            obj["spec"]["volumeName"] = bound
            obj["metadata"]["annotations"] = {N.annotation_bind_completed: "yes"}
        self.tables[CLAIMS][f"default/{name}"] = obj
        return obj

    def volume(self, name, size="1Gi", **spec):
        obj = volume(name, size, **spec)
        obj["metadata"]["resourceVersion"] = "1"
        self.tables[VOLUMES][name] = obj
        return obj

    def storage_class(self, name, mode="WaitForFirstConsumer", provisioner="d.example", **more):
        meta = {"name": name}
        self.tables[CLASSES][name] = {
            "metadata": meta,
            "provisioner": provisioner,
            "volumeBindingMode": mode,
            **more,
        }

    def drivers(self, node, **counts):
        rows = [{"name": f"{d}.example", "allocatable": {"count": n}} for d, n in counts.items()]
        self.tables[CSI_NODES][node] = {"metadata": {"name": node}, "spec": {"drivers": rows}}

    def use(self, *names, **spec):
        volumes = [{"name": n, "persistentVolumeClaim": {"claimName": n}} for n in names]
        return self.place(volumes=[*volumes, *spec.pop("volumes", ())], **spec)


def text(reasons, n=2):
    return f"0/{n} nodes are available: {reasons}. {HELPLESS.format(n=n)}"


def test_claim_that_cannot_be_used_refuses_every_node_with_its_reason():
    world = Disks()
    assert world.use("x").message == text('2 persistentvolumeclaim "x" not found')
    ephemeral = {"name": "v", "ephemeral": {}}
    waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p2-v"'
    assert world.place(volumes=[ephemeral]).message == text(f"2 {waiting}")
    world.claim("p3-v")
    foreign = "PVC default/p3-v was not created for pod default/p3 (pod is not owner)"
    assert world.place(volumes=[ephemeral]).message == text(f"2 {foreign}")
    world.claim("lost", bound="gone")["status"] = {"phase": "Lost"}
    lost = 'persistentvolumeclaim "lost" bound to non-existent persistentvolume "gone"'
    assert world.use("lost").message == text(f"2 {lost}")
    world.claim("old", bound="v")["metadata"]["deletionTimestamp"] = "now"
    assert world.use("old").message == text('2 persistentvolumeclaim "old" is being deleted')
    world.claim("now")
    answer = world.use("now")
    assert answer.message == text("2 pod has unbound immediate PersistentVolumeClaims")
    assert answer.plugins == ("VolumeBinding",)
    # A claim that names its volume is not delayed by its class.
    world.storage_class("late")
    world.claim("named", storageClassName="late", volumeName="v")
    assert world.use("named").message == text("2 pod has unbound immediate PersistentVolumeClaims")


def test_bound_volume_takes_the_pod_to_the_nodes_that_it_reaches():
    world = Disks()
    world.claim("c", bound="v")
    assert world.use("c").message == text(
        "2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    )
    world.volume("v", nodeAffinity=on(N.label_zone, "b"))
    assert world.use("c") == Placed("b", ((), (), ()))
    world.node("b", cpu="0", **{N.label_zone: "b"})
    assert world.use("c").message == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had volume node affinity conflict. preemption: "
        "0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful "
        "for scheduling."
    )
    # The labels of a volume count after its affinity.
    world.volume("v")["metadata"]["labels"] = {N.label_zone: "c__a"}
    assert world.use("c").node == "a"
    world.volume("v")["metadata"]["labels"] = {N.label_zone: "c"}
    world.node("b", **{N.label_zone: "b"})
    assert world.use("c").message == text("2 node(s) had no available volume zone")


def test_waiting_claims_choose_a_node_that_has_volumes_for_all():
    world = Disks()
    world.storage_class("local", provisioner=N.provisioner_none)
    for name in "cd":
        world.claim(name, storageClassName="local")
    assert world.use("c", "d").message == text("2 node(s) didn't find available persistent volumes to bind")
    for name, zone in (("v1", "a"), ("v2", "b"), ("v3", "b")):
        world.volume(name, storageClassName="local", nodeAffinity=on(N.label_zone, zone))
    placed = world.use("c", "d")
    assert placed.node == "b"
    names = [(v["metadata"]["name"], c["metadata"]["name"]) for v, c in placed.choice.static]
    assert names == [("v2", "c"), ("v3", "d")]
    # What was chosen is gone for the next pod, until the choice is taken back.
    bindings = reserve(world.storage, placed.choice, "default/p", "b")
    world.claim("e", storageClassName="local")
    assert world.use("e").node == "a"
    unreserve(world.storage, bindings)
    assert world.use("c", "d").node == "b"
    # A newer revision of a volume ends what was assumed about it.
    reserve(world.storage, placed.choice, "default/p", "b")
    for name in ("v2", "v3"):
        world.tables[VOLUMES][name] = {
            **world.tables[VOLUMES][name],
            "metadata": {"name": name, "resourceVersion": "2"},
        }
    assert world.use("c", "d").node == "b"


def test_claim_to_provision_needs_its_topology_and_its_space():
    world = Disks()
    topology = [{"matchLabelExpressions": [{"key": N.label_zone, "values": ["b"]}]}]
    world.storage_class("made", allowedTopologies=topology)
    world.claim("c", storageClassName="made")
    placed = world.use("c")
    assert placed.node == "b" and [c["metadata"]["name"] for c in placed.choice.provisions] == ["c"]
    marked = reserve(world.storage, placed.choice, "default/p", "b").claims[0]
    assert marked["metadata"]["annotations"] == {N.annotation_selected_node: "b"}
    # The selected node is the only one from now on.
    world.node("b", cpu="0", **{N.label_zone: "b"})
    assert (
        "1 Insufficient cpu, 1 node(s) didn't find available persistent volumes to bind"
        in world.use("c").message
    )
    world.node("b", **{N.label_zone: "b"})
    world.tables[CSI_DRIVERS]["d.example"] = {"spec": {"storageCapacity": True}}
    assert "1 node(s) did not have enough free storage" in world.use("c").message
    capacity = {
        "storageClassName": "made",
        "capacity": "1Gi",
        "nodeTopology": {"matchLabels": {N.label_zone: "b"}},
    }
    world.tables[CAPACITIES]["x/1"] = capacity
    assert world.use("c").node == "b"
    world.tables[CAPACITIES]["x/1"] = {**capacity, "maximumVolumeSize": "500Mi"}
    assert isinstance(world.use("c"), Failed)


@pytest.mark.parametrize(
    ("source", "other", "conflicts"),
    [
        ({"gcePersistentDisk": {"pdName": "d"}}, {"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, True),
        ({"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, {"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, False),
        ({"awsElasticBlockStore": {"volumeID": "d", "readOnly": True}}, {"awsElasticBlockStore": {"volumeID": "d", "readOnly": True}}, True),
        ({"iscsi": {"iqn": "d"}}, {"iscsi": {"iqn": "e"}}, False),
        ({"rbd": {"monitors": ["m", "n"], "pool": "p", "image": "i"}}, {"rbd": {"monitors": ["n"], "pool": "p", "image": "i"}}, True),
        ({"rbd": {"monitors": ["m"], "pool": "p", "image": "i"}}, {"rbd": {"monitors": ["n"], "pool": "p", "image": "i"}}, False),
    ],
)  # fmt: skip
def test_disk_in_use_on_a_node_keeps_other_pods_away(source, other, conflicts):
    world = Disks()
    world.cluster.delete_node("b")
    world.put("a", volumes=[{"name": "v", **other}])
    answer = world.place(volumes=[{"name": "v", **source}], priority=5)
    if not conflicts:
        assert answer.node == "a"
        return
    # The conflict can be resolved: the other pod has a lower priority.
    assert victims(answer) == ("a", ["default/p1"])
    assert answer.message.startswith("0/1 nodes are available: 1 node(s) had no available disk.")


def test_claim_of_one_pod_is_refused_only_with_the_gate():
    for gates, node in (((), "a"), (OF_VOLUMES, None)):
        world = Disks(gates)
        world.claim("c", bound="v", accessModes=["ReadWriteOncePod"])
        world.volume("v", nodeAffinity=on(N.label_zone, "a"))
        world.put("b", volumes=[{"name": "c", "persistentVolumeClaim": {"claimName": "c"}}])
        answer = world.use("c")
        if node:
            assert answer.node == node
        else:
            reason = (
                "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
            )
            assert answer.message == text(f"2 {reason}")


def test_driver_limit_counts_each_volume_of_a_node_once():
    world = Disks()
    world.drivers("a", d=2)
    world.drivers("b", d=1, other=9)
    for name in ("c", "d", "e"):
        world.claim(name, bound=f"v-{name}")
        world.volume(f"v-{name}", csi={"driver": "d.example", "volumeHandle": name})
    assert world.use("c", "d").node == "a"
    world.put("a", volumes=[{"name": "c", "persistentVolumeClaim": {"claimName": "c"}}])
    assert world.use("c", "d").node == "a"
    answer = world.use("d", "e", priority=1)
    # Without the pod of lower priority there is room for both on that node.
    assert victims(answer) == ("a", ["default/p2"])
    assert answer.message == "0/2 nodes are available: 2 node(s) exceed max volume count."
    assert answer.plugins == ("NodeVolumeLimits",)
    # A claim without a volume counts for the provisioner of its class.
    world.storage_class("made")
    world.claim("new", storageClassName="made")
    assert isinstance(world.use("c", "d", "new"), Failed)


def test_in_tree_limit_ends_where_a_csi_driver_serves_the_disks():
    world = Disks()
    world.cluster.delete_node("b")
    disks = [{"name": f"v{i}", "gcePersistentDisk": {"pdName": f"d{i}"}} for i in range(17)]
    assert world.place(volumes=disks).plugins == ("GCEPDLimits",)
    world.tables[CSI_NODES]["a"] = {
        "metadata": {"name": "a", "annotations": {N.annotation_migrated_plugins: N.in_tree("gce-pd")}},
        "spec": {"drivers": [{"name": "pd.csi.storage.gke.io", "allocatable": {"count": 20}}]},
    }
    assert world.place(volumes=disks).node == "a"
    world.put("a", volumes=[{"name": f"w{i}", "gcePersistentDisk": {"pdName": f"e{i}"}} for i in range(5)])
    assert world.place(volumes=disks).plugins == ("NodeVolumeLimits",)


def test_foreign_claim_of_a_present_pod_is_a_scheduler_error():
    world = Disks()
    world.drivers("a", d=9)
    world.put("a", volumes=[{"name": "v", "ephemeral": {}}])
    for name in ("p1-v", "c"):
        world.claim(name, bound="v")
    world.volume("v", csi={"driver": "d.example", "volumeHandle": "h"})
    answer = world.use("c")
    assert answer.reason == "SchedulerError" and answer.plugins is None
    assert answer.message == (
        'running "NodeVolumeLimits" filter plugin: PVC default/p1-v was not created for pod default/p1 (pod is not owner)'
    )


def test_fuller_volume_is_preferred_with_the_gate():
    world = Disks(OF_VOLUMES)
    world.storage_class("local", provisioner=N.provisioner_none)
    world.claim("c", storageClassName="local")
    world.volume("big", "4Gi", storageClassName="local", nodeAffinity=on(N.label_zone, "a"))
    world.volume("small", "2Gi", storageClassName="local", nodeAffinity=on(N.label_zone, "b"))
    world.put("b", cpu="0")  # node a is emptier, by less
    assert world.use("c").node == "b"
    assert Disks().use().node == "a"


def test_changes_wake_the_pods_that_upstream_wakes():
    events = Profile(Disks().cluster).events
    woken = {
        event: sorted(name for name, wanted in events.items() if event in wanted and "Volume" in name)
        for event in (ClusterEvent.CLAIM_ADD, ClusterEvent.VOLUME_UPDATE, ClusterEvent.CSI_NODE_ADD)
    }
    assert woken == {
        ClusterEvent.CLAIM_ADD: ["VolumeBinding", "VolumeRestrictions", "VolumeZone"],
        ClusterEvent.VOLUME_UPDATE: ["VolumeBinding", "VolumeZone"],
        ClusterEvent.CSI_NODE_ADD: ["NodeVolumeLimits", "VolumeBinding"],
    }


def test_binding_ends_when_every_claim_is_bound_or_one_cannot_be():
    world = Disks()
    node = {"metadata": {"name": "a", "labels": {N.label_zone: "a"}}}
    made = {
        "metadata": {**world.claim("m")["metadata"], "annotations": {N.annotation_selected_node: "a"}},
        "spec": {},
    }
    bindings = Bindings("default/p", "a", [(world.volume("v"), "default/c")], [made])

    def state():
        return progress(bindings, world.storage, node, True)

    assert progress(bindings, world.storage, None, True)[1] == 'failed to get node "a": node "a" not found'
    assert (
        progress(bindings, world.storage, node, False)[1] == 'pod does not exist any more: pod "p" not found'
    )
    assert state()[1] == 'failed to check binding: could not find v1.PersistentVolumeClaim "default/c"'
    world.claim("c")
    assert state()[1] == 'ClaimRef got reset for pv "v"'
    world.volume("v", claimRef={"uid": "u"}, nodeAffinity=on(N.label_zone, "b"))
    assert state()[1] == 'pv "v" node affinity doesn\'t match node "a": no matching NodeSelectorTerms'
    world.volume("v", claimRef={"uid": "u"})
    assert state() == (False, "")  # the claim is not bound yet
    world.claim("c", bound="v")
    assert state()[1] == 'selectedNode annotation reset for PVC "m"'
    world.tables[CLAIMS]["default/m"] = made
    assert state() == (False, "")
    marks = {N.annotation_selected_node: "b", N.annotation_bind_completed: "yes"}
    world.claim("m", volumeName="made")["metadata"]["annotations"] = marks
    assert state()[1] == 'provisioning failed for PVC "m"'
    marks[N.annotation_selected_node] = "a"
    assert state() == (False, "")  # the informer does not show the new volume yet
    world.volume("made")
    assert state() == (True, "")
