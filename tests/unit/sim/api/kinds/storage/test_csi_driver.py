"""Defaults, generation, validation and tables of CSIDrivers."""

from __future__ import annotations

from sim.api.kinds.defaults import apply_defaults, with_gated_defaults
from sim.api.kinds.strategies import for_create, for_update
from sim.api.kinds.tables import cells
from sim.api.kinds.validation import validate_create, validate_update
from sim.api.scheme.scheme import Scheme
from sim.api.types import Obj
from sim.ident import NAMES

N = NAMES["kubernetes"]
RESOURCE = Scheme(N).resource("csidrivers")
GATE = "SELinuxMountReadWriteOncePod"


def made(**spec: object) -> Obj:
    return apply_defaults(RESOURCE, {"metadata": {"name": "d", "resourceVersion": "1"}, "spec": spec})


def messages(obj: Obj) -> list[str]:
    return [f"{error.field}: {error.message}" for error in validate_create(RESOURCE, obj)]


def test_csi_driver_gets_the_defaults_of_a_persistent_driver():
    assert apply_defaults(RESOURCE, {"metadata": {"name": "d"}})["spec"] == {
        "attachRequired": True,
        "podInfoOnMount": False,
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "requiresRepublish": False,
        "volumeLifecycleModes": ["Persistent"],
    }


def test_csi_driver_token_requests_differ_in_audience():
    requests = [{"audience": "a", "expirationSeconds": 599}, {"audience": "a"}]
    assert messages(made(tokenRequests=requests)) == [
        "spec.tokenRequests[0].expirationSeconds: Invalid value: 599: "
        "may not specify a duration less than 10 minutes",
        'spec.tokenRequests[1].audience: Duplicate value: "a"',
    ]


def test_csi_driver_refuses_unknown_policy_and_mode():
    assert messages(made(fsGroupPolicy="X", volumeLifecycleModes=["Y"])) == [
        'spec.fsGroupPolicy: Unsupported value: "X": '
        'supported values: "File", "None", "ReadWriteOnceWithFSType"',
        'spec.volumeLifecycleModes: Unsupported value: "Y": supported values: "Persistent", "Ephemeral"',
    ]


def test_csi_driver_fields_that_mounts_depend_on_do_not_change():
    changed = made(
        attachRequired=False, fsGroupPolicy="File", podInfoOnMount=True, volumeLifecycleModes=["Ephemeral"]
    )
    errors = validate_update(RESOURCE, changed, made())
    assert [f"{error.field}: {error.message}" for error in errors] == [
        "spec.attachedRequired: Invalid value: false: field is immutable",
        'spec.fsGroupPolicy: Invalid value: "File": field is immutable',
        "spec.podInfoOnMount: Invalid value: true: field is immutable",
        'spec.volumeLifecycleModes: Invalid value: []storage.VolumeLifecycleMode{"Ephemeral"}: '
        "field is immutable",
    ]
    assert validate_update(RESOURCE, made(storageCapacity=True, requiresRepublish=True), made()) == []


def test_csi_driver_generation_counts_token_requests_and_republishing():
    before = for_create(RESOURCE, made(), N)
    assert "generation" not in before["metadata"]
    after = for_update(RESOURCE, made(requiresRepublish=True), before, N)
    assert after["metadata"]["generation"] == 1
    again = for_update(RESOURCE, made(requiresRepublish=True, tokenRequests=[{"audience": "a"}]), after, N)
    assert again["metadata"]["generation"] == 2
    assert "generation" not in for_update(RESOURCE, made(storageCapacity=True), before, N)["metadata"]


def test_selinux_mount_of_csi_driver_follows_its_gate():
    assert "seLinuxMount" not in for_create(RESOURCE, made(seLinuxMount=True), N)["spec"]
    assert for_create(RESOURCE, made(seLinuxMount=True), N, (GATE,))["spec"]["seLinuxMount"] is True
    assert with_gated_defaults(RESOURCE, made(), (GATE,))["spec"]["seLinuxMount"] is False


def test_table_of_csi_driver_lists_audiences_and_modes():
    driver = made(tokenRequests=[{"audience": "a"}, {"audience": "b"}])
    assert cells(RESOURCE, driver, 0, N)[:7] == ["d", True, False, False, "a,b", False, "Persistent"]
    assert cells(RESOURCE, made(), 0, N)[4] == "<unset>"
