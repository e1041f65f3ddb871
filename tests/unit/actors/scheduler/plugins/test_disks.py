"""The plugins that read volumes, one by one: which disk, which zone, how many, at their borders."""

import pytest

from actors.scheduler.plugins.base import CycleError
from actors.scheduler.plugins.node_volume_limits import (
    AzureDiskLimits,
    EBSLimits,
    GCEPDLimits,
    NodeVolumeLimits,
    _limit_key,
    is_migrated,
)
from actors.scheduler.plugins.volume_binding import VolumeBinding
from actors.scheduler.plugins.volume_restrictions import VolumeRestrictions
from actors.scheduler.plugins.volume_zone import VolumeZone
from actors.scheduler.volumes.pod_volumes import PodVolumes
from actors.scheduler.volumes.storage import CSI_NODES
from sim.ident import NAMES
from sim.options.features.gates import OF_VOLUMES
from tests.unit.actors.scheduler.test_volumes import Disks

N = NAMES["orch"]


def of_claim(name):
    return {"name": name, "persistentVolumeClaim": {"claimName": name}}


def disks(source, handle, *names):
    return [{"name": name, source: {handle: name}} for name in names]


def volumes_of(world, *volumes, **spec):
    pod = world.pod(volumes=list(volumes), **spec)
    return PodVolumes(world.cluster, world.storage, world.cluster.templates.info(pod))


def reason(plugin, world, *volumes, node="a"):
    """The refusal of a node for a pod with these volumes, in one text; "" if there is none."""
    status = plugin.filter(volumes_of(world, *volumes), world.cluster.nodes[node])
    return " ".join(status.reasons) if status else ""


def size_of_node(world, node="a", labels=None, **allocatable):
    world.cluster.set_node(
        {
            "metadata": {"name": node, "labels": labels or {}},
            "spec": {},
            "status": {"allocatable": {"cpu": "9", "pods": "99", **allocatable}},
        }
    )


def migrate(world, *plugins, node="a", drivers=()):
    listed = ",".join(map(N.in_tree, plugins))
    world.tables[CSI_NODES][node] = {
        "metadata": {"name": node, "annotations": {N.annotation_migrated_plugins: listed}},
        "spec": {"drivers": list(drivers)},
    }


FULL = "node(s) exceed max volume count"
IN_TREE = [
    (EBSLimits(), "awsElasticBlockStore", "volumeID", 39, "aws-ebs"),
    (GCEPDLimits(), "gcePersistentDisk", "pdName", 16, "gce-pd"),
    (AzureDiskLimits(), "azureDisk", "diskName", 16, "azure-disk"),
]


@pytest.mark.parametrize(("plugin", "source", "handle", "limit", "resource"), IN_TREE)
def test_a_node_takes_as_many_disks_of_a_driver_as_its_limit(plugin, source, handle, limit, resource):
    world = Disks()
    many = disks(source, handle, *(f"d{at}" for at in range(limit + 1)))
    assert reason(plugin, world, *many[:limit]) == ""
    assert reason(plugin, world, *many) == FULL
    assert reason(plugin, world) == ""
    size_of_node(world, **{f"attachable-volumes-{resource}": "1"})
    assert reason(plugin, world, *many[:1]) == ""
    assert reason(plugin, world, *many[:2]) == FULL
    migrate(world, "cinder", resource)
    assert reason(plugin, world, *many[:2]) == ""
    migrate(world, "cinder")
    assert reason(plugin, world, *many[:2]) == FULL


@pytest.mark.parametrize(
    ("labels", "limit"),
    [
        ({}, 39),
        ({N.label_instance_type: "c5.large"}, 25),
        ({N.label_instance_type: "c4.large"}, 39),
        ({N.label_instance_type: "t3.nano"}, 25),
        ({N.label_beta_instance_type: "r5"}, 25),
        ({N.label_beta_instance_type: "x1", N.label_instance_type: "z1d"}, 39),
        ({N.label_beta_instance_type: "z1d", N.label_instance_type: "x1"}, 25),
    ],
)
def test_the_limit_of_amazons_disks_is_less_on_newer_machines(labels, limit):
    world = Disks()
    size_of_node(world, labels=labels)
    many = disks("awsElasticBlockStore", "volumeID", *(f"d{at}" for at in range(limit + 1)))
    assert reason(EBSLimits(), world, *many[:limit]) == ""
    assert reason(EBSLimits(), world, *many) == FULL


def test_disks_that_are_present_count_once():
    world = Disks()
    size_of_node(world, **{"attachable-volumes-gce-pd": "2"})
    one, two, three = disks("gcePersistentDisk", "pdName", "d1", "d2", "d3")
    world.put("a", volumes=[one])
    world.put("a", volumes=[])
    assert reason(GCEPDLimits(), world, one, two) == ""
    assert reason(GCEPDLimits(), world, two, three) == FULL
    assert reason(GCEPDLimits(), world, two, {**two, "name": "twice"}) == ""
    # a pod with other disks alone is not the one that is too many
    world.put("a", volumes=[two])
    world.put("a", volumes=[three])
    assert reason(GCEPDLimits(), world, *disks("azureDisk", "diskName", "x")) == ""
    assert reason(GCEPDLimits(), world, one) == FULL


def in_tree_reasons(world, *names):
    return reason(GCEPDLimits(), world, *map(of_claim, names))


def test_claims_count_for_the_disk_behind_them_or_for_their_class():
    world = Disks()
    size_of_node(world, **{"attachable-volumes-gce-pd": "0"})
    world.claim("plain")
    world.claim("bound", bound="v")
    world.claim("csi", bound="w")
    world.volume("v", gcePersistentDisk={"pdName": "d"})
    world.volume("w", csi={"driver": "d.example", "volumeHandle": "h"})
    world.storage_class("gce", provisioner=N.in_tree("gce-pd"))
    world.storage_class("aws", provisioner=N.in_tree("aws-ebs"))
    world.claim("of-gce", storageClassName="gce")
    world.claim("of-aws", storageClassName="aws")
    world.claim("lost-of-gce", bound="gone", storageClassName="gce")
    found = {
        name: in_tree_reasons(world, name)
        for name in ("plain", "bound", "csi", "of-gce", "of-aws", "lost-of-gce")
    }
    assert found == {
        "plain": "",
        "bound": FULL,
        "csi": "",
        "of-gce": FULL,
        "of-aws": "",
        "lost-of-gce": FULL,
    }
    size_of_node(world, **{"attachable-volumes-gce-pd": "2"})
    # a disk by its name and as the volume of a claim is one; claims that wait are apart
    assert (
        reason(GCEPDLimits(), world, *disks("gcePersistentDisk", "pdName", "d", "e"), of_claim("bound")) == ""
    )
    assert in_tree_reasons(world, "bound", "of-gce", "lost-of-gce") == FULL


def test_a_missing_claim_ends_the_attempt_of_its_pod_but_not_of_others():
    world = Disks()
    limits = NodeVolumeLimits()
    with pytest.raises(CycleError, match='"NodeVolumeLimits" filter plugin: looking up PVC default/c'):
        reason(limits, world, of_claim("c"))
    with pytest.raises(CycleError, match='"GCEPDLimits" filter plugin: looking up PVC default/c'):
        in_tree_reasons(world, "c")
    world.put("a", volumes=[of_claim("c")])
    world.drivers("a", d=1)
    world.claim("e", bound="v")
    world.volume("v", csi={"driver": "d.example", "volumeHandle": "h"})
    assert reason(limits, world, of_claim("e")) == ""
    world.put("a", volumes=[of_claim("c"), *disks("gcePersistentDisk", "pdName", "x")])
    assert reason(GCEPDLimits(), world, *disks("gcePersistentDisk", "pdName", "d")) == ""


def csi_claims(world, *names, driver="d.example"):
    for name in names:
        world.claim(name, bound=f"v-{name}")
        world.volume(f"v-{name}", csi={"driver": driver, "volumeHandle": name})


def test_a_driver_takes_as_many_volumes_as_its_limit_on_the_node():
    world = Disks()
    csi_claims(world, "c", "d", "e")
    csi_claims(world, "x", driver="other.example")
    plugin = NodeVolumeLimits()

    def reason_of(*names):
        return reason(plugin, world, *map(of_claim, names))

    assert reason_of("c", "d", "e") == ""  # there is no limit
    world.drivers("a", d=2)
    assert [reason_of("c"), reason_of("c", "d"), reason_of("c", "d", "e")] == ["", "", FULL]
    assert reason_of("x", "c", "d") == ""  # of a driver without one
    world.drivers("a", d=2, other=0)
    assert [reason_of("x"), reason_of("c", "x"), reason_of("c")] == [FULL, FULL, ""]
    world.put("a", volumes=[of_claim("c")])
    world.put("a", volumes=[of_claim("d")])
    # both are there already; what is new counts in addition
    assert [reason_of("c", "d"), reason_of("e")] == ["", FULL]
    world.put("a", volumes=[of_claim("e")])
    # no more is added, though there is more than allowed
    assert [reason_of("c"), reason_of("c", "d", "e")] == ["", ""]


def test_a_volume_without_a_handle_does_not_count():
    world = Disks()
    world.drivers("a", d=0)
    for name, handle in (("without", ""), ("with", "h")):
        world.claim(name, bound=name)
        world.volume(name, csi={"driver": "d.example", "volumeHandle": handle})
    assert [reason(NodeVolumeLimits(), world, of_claim(name)) for name in ("without", "with")] == ["", FULL]


@pytest.mark.parametrize(
    "drivers", [[], None, [{"name": "d.example"}], [{"name": "d.example", "allocatable": {}}]]
)
def test_a_driver_without_a_count_has_no_limit(drivers):
    world = Disks()
    csi_claims(world, "c")
    world.tables[CSI_NODES]["a"] = {"metadata": {"name": "a"}, "spec": {"drivers": drivers}}
    assert reason(NodeVolumeLimits(), world, of_claim("c")) == ""


def test_in_tree_disks_count_for_the_driver_that_serves_them():
    world = Disks()
    plugin = NodeVolumeLimits()
    none = [{"name": "pd.csi.storage.gke.io", "allocatable": {"count": 0}}]
    disk = disks("gcePersistentDisk", "pdName", "d")
    world.claim("c", bound="v")
    world.volume("v", gcePersistentDisk={"pdName": "d"})
    world.storage_class("gce", provisioner=N.in_tree("gce-pd"))
    world.claim("new", storageClassName="gce")
    world.claim("classless")
    world.claim("unknown", storageClassName="none")
    migrate(world, "aws-ebs", drivers=none)
    assert [reason(plugin, world, each) for each in (*disk, of_claim("c"), of_claim("new"))] == ["", "", ""]
    migrate(world, "aws-ebs", "gce-pd", drivers=none)
    assert [reason(plugin, world, each) for each in (*disk, of_claim("c"), of_claim("new"))] == [FULL] * 3
    assert reason(plugin, world, of_claim("classless")) == ""
    assert reason(plugin, world, of_claim("unknown")) == ""
    assert reason(plugin, world, *disks("awsElasticBlockStore", "volumeID", "d")) == ""


REPLACED = {
    "aws-ebs": "ebs.csi.aws.com",
    "gce-pd": "pd.csi.storage.gke.io",
    "azure-disk": "disk.csi.azure.com",
}


@pytest.mark.parametrize("full", REPLACED)
def test_an_unbound_claim_counts_for_the_driver_that_replaces_that_of_its_class(full):
    world = Disks()
    for plugin in REPLACED:
        world.storage_class(plugin, provisioner=N.in_tree(plugin))
        world.claim(plugin, storageClassName=plugin)
    migrate(world, *REPLACED, drivers=[{"name": REPLACED[full], "allocatable": {"count": 0}}])
    found = {plugin: reason(NodeVolumeLimits(), world, of_claim(plugin)) for plugin in REPLACED}
    assert found == {plugin: FULL if plugin == full else "" for plugin in REPLACED}


def test_migrated_drivers_are_listed_with_commas():
    node = {"metadata": {"annotations": {N.annotation_migrated_plugins: f"x,{N.in_tree('gce-pd')}"}}}
    assert is_migrated(node, "gce-pd", N)
    assert not is_migrated(node, "gce", N)
    assert not is_migrated(None, "gce-pd", N)
    assert not is_migrated({"metadata": {}}, "gce-pd", N)


def test_the_limit_of_a_driver_with_a_long_name_ends_in_a_hash():
    start = "attachable-volumes-csi-"
    assert _limit_key("d.example") == f"{start}d.example"
    assert _limit_key("d" * 39) == start + "d" * 39
    assert _limit_key("d" * 40) == start + "d" * 23 + "4e99f0e6374ba7bf"


RBD = {"pool": "p", "image": "i", "monitors": ["m"]}
DISKS = [
    ("gcePersistentDisk", {"pdName": "d"}, {"pdName": "d"}, True),
    ("gcePersistentDisk", {"pdName": "d"}, {"pdName": "e"}, False),
    ("gcePersistentDisk", {"pdName": "d", "readOnly": True}, {"pdName": "d"}, True),
    ("gcePersistentDisk", {"pdName": "d", "readOnly": True}, {"pdName": "d", "readOnly": True}, False),
    ("awsElasticBlockStore", {"volumeID": "d"}, {"volumeID": "e"}, False),
    ("awsElasticBlockStore", {"volumeID": "d", "readOnly": True}, {"volumeID": "d", "readOnly": True}, True),
    ("iscsi", {"iqn": "d"}, {"iqn": "d", "readOnly": True}, True),
    ("iscsi", {"iqn": "d", "readOnly": True}, {"iqn": "d", "readOnly": True}, False),
    ("rbd", RBD, RBD, True),
    ("rbd", RBD, {**RBD, "pool": "q"}, False),
    ("rbd", RBD, {**RBD, "image": "j"}, False),
    ("rbd", RBD, {**RBD, "monitors": ["n"]}, False),
    ("rbd", RBD, {**RBD, "monitors": None}, False),
    ("rbd", {**RBD, "monitors": None}, RBD, False),
    ("rbd", {**RBD, "monitors": ["n", "m"]}, RBD, True),
    ("rbd", {**RBD, "readOnly": True}, {**RBD, "readOnly": True}, False),
]


@pytest.mark.parametrize(("source", "mine", "other", "conflicts"), DISKS)
def test_a_disk_is_used_by_one_pod_of_a_node(source, mine, other, conflicts):
    world = Disks()
    plugin = VolumeRestrictions()
    world.put("a", volumes=[of_claim("x"), {"name": "v", source: other}])
    world.put("a", volumes=[])
    found = reason(plugin, world, of_claim("y"), {"name": "w", source: mine})
    assert found == ("node(s) had no available disk" if conflicts else "")
    assert reason(plugin, world, {"name": "w", source: mine}, node="b") == ""


@pytest.mark.parametrize(
    ("gates", "modes", "used", "wanted"),
    [
        (OF_VOLUMES, ["ReadWriteOncePod"], "c", True),
        (OF_VOLUMES, ["ReadWriteOnce"], "c", False),
        (OF_VOLUMES, ["ReadWriteOncePod"], "d", False),
        (OF_VOLUMES, None, "c", False),
        ((), ["ReadWriteOncePod"], "c", False),
    ],
)
def test_a_claim_of_one_pod_is_in_use_on_any_node(gates, modes, used, wanted):
    world = Disks()
    world.claim("c", accessModes=modes)
    world.put("b", volumes=[of_claim(used)])
    plugin = VolumeRestrictions(gates)
    status = plugin.pre_filter(volumes_of(world, *disks("iscsi", "iqn", "q"), of_claim("c")))
    assert (status is not None) is wanted
    if wanted:
        assert status.unresolvable


def test_a_missing_claim_is_refused_with_the_gate():
    missing = volumes_of(Disks(), of_claim("c"))
    status = VolumeRestrictions(OF_VOLUMES).pre_filter(missing)
    assert status.reasons == ('persistentvolumeclaim "c" not found',)
    assert status.unresolvable
    assert VolumeRestrictions().pre_filter(missing) is None


ZONES = [
    ({N.label_zone: "z1"}, {}, False),
    ({N.label_zone: "z1"}, {N.label_zone: "z1"}, False),
    ({N.label_zone: "z1"}, {N.label_zone: "z2"}, True),
    ({N.label_zone: "z1"}, {N.label_zone: "z2__z1"}, False),
    ({N.label_zone: "z1"}, {N.label_zone: "z2__ z1 "}, False),
    ({N.label_zone: "z1"}, {N.label_zone: "z2__z3"}, True),
    ({N.label_zone: "z1"}, {N.label_zone: "z2__"}, False),  # malformed: not read
    ({N.label_zone: "z1"}, {N.label_zone: ""}, False),
    ({N.label_zone: "z1"}, {N.label_region: "r"}, True),  # the node has no such label
    ({N.label_region: "r"}, {N.label_region: "r"}, False),
    ({N.label_beta_zone: "z1"}, {N.label_beta_zone: "z2"}, True),
    ({N.label_beta_region: "r"}, {N.label_beta_region: "s"}, True),
    ({"other": "x"}, {N.label_zone: "z2"}, False),  # a node without any may be anywhere
]


@pytest.mark.parametrize(("labels", "of_volume", "conflicts"), ZONES)
def test_a_volume_is_reached_in_the_zones_and_regions_of_its_labels(labels, of_volume, conflicts):
    world = Disks()
    size_of_node(world, labels=labels)
    world.claim("c", bound="v")
    world.volume("v", labels=of_volume)
    found = reason(VolumeZone(), world, *disks("iscsi", "iqn", "q"), of_claim("c"))
    assert found == ("node(s) had no available volume zone" if conflicts else "")


def test_the_zone_of_a_claim_without_volume_depends_on_its_class():
    world = Disks()
    plugin = VolumeZone()
    world.claim("gone", bound="v")
    world.claim("classless")
    world.claim("unknown", storageClassName="none")
    world.storage_class("late")
    world.storage_class("now", "Immediate")
    world.claim("waits", storageClassName="late")
    world.claim("lags", storageClassName="now")
    found = {name: reason(plugin, world, of_claim(name)) for name in ("x", "gone", "classless", "unknown")}
    assert found == {
        "x": 'persistentvolumeclaim "x" not found',
        "gone": 'persistentvolume "v" not found',
        "classless": "PersistentVolumeClaim had no pv name and storageClass name",
        "unknown": f'storageclass.{N.group("storage")} "none" not found',
    }
    assert reason(plugin, world, of_claim("waits")) == ""
    assert reason(plugin, world, of_claim("waits"), of_claim("lags")) == "PersistentVolume had no name"
    statuses = [
        plugin.filter(volumes_of(world, of_claim(name)), world.cluster.nodes["a"])
        for name in (*found, "lags")
    ]
    assert [status.unresolvable for status in statuses] == [True] * 5


def test_scores_of_chosen_volumes_are_their_used_share_half_rounded_up():
    world = Disks(OF_VOLUMES)
    node = world.cluster.nodes["a"]
    plugin = VolumeBinding(OF_VOLUMES)

    class Chosen:
        def __init__(self, *used):
            self.used = list(used)

        def used_capacity(self, node):
            return self.used

    cases = {
        (): 0,
        ((1, 4),): 25,
        ((4, 4),): 100,
        ((5, 4),): 100,
        ((0, 0),): 100,
        ((1, 4), (2, 4)): 38,
        ((1, 4), (1, 4)): 25,
        ((1, 3), (1, 3), (2, 3)): 44,
        ((0, 4),): 0,
    }
    assert {used: plugin.score(Chosen(*used), node) for used in cases} == cases
    assert VolumeBinding().score(Chosen((1, 4)), node) == 0


def test_a_pod_without_claims_is_bound_anywhere():
    world = Disks()
    found = volumes_of(world, *disks("iscsi", "iqn", "q"))
    assert VolumeBinding().pre_filter(found) is None
    assert VolumeBinding().filter(found, world.cluster.nodes["a"]) is None


@pytest.mark.parametrize("volume", ["", "v"])
def test_a_lost_claim_is_refused_with_the_volume_that_it_names(volume):
    world = Disks()
    world.claim("c", bound=volume)["status"] = {"phase": "Lost"}
    status = VolumeBinding().pre_filter(volumes_of(world, of_claim("c")))
    lost = f'persistentvolumeclaim "c" bound to non-existent persistentvolume "{volume}"'
    assert (status.reasons, status.unresolvable) == ((lost,), True)
