"""Differences as upstream prints them; the texts are those of go-cmp for the same values."""

from __future__ import annotations

from typing import Any

import pytest

from sim.api.go.differences import ROW_MAX, difference

POD = "core.PodSpec"
CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "a",
    "volumeMode": "Filesystem",
}


def lines(kind: str, old: Any, new: Any) -> list[str]:
    return difference(kind, old, new).splitlines()


def test_changed_claim_shows_pointers_lists_and_selectors() -> None:
    new = {key: value for key, value in CLAIM.items() if key != "storageClassName"}
    new |= {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "selector": {"matchLabels": {"a": "b"}}}
    selector = (
        "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{},}"
    )
    assert lines("core.PersistentVolumeClaimSpec", CLAIM, new) == [
        "  core.PersistentVolumeClaimSpec{",
        "  \tAccessModes: []core.PersistentVolumeAccessMode{",
        '  \t\t"ReadWriteOnce",',
        '+ \t\t"ReadOnlyMany",',
        "  \t},",
        "- \tSelector:         nil,",
        f'+ \tSelector:         s"{selector}",',
        '  \tResources:        {Requests: {s"storage": {i: {...}, s: "1Gi", Format: "BinarySI"}}},',
        '  \tVolumeName:       "",',
        '- \tStorageClassName: &"a",',
        "+ \tStorageClassName: nil,",
        '  \tVolumeMode:       &"Filesystem",',
        "  \tDataSource:       nil,",
        "  \tDataSourceRef:    nil,",
        "  }",
    ]


def test_changed_volume_shows_two_sources_and_counts_the_others() -> None:
    old = {"hostPath": {"path": "/a", "type": ""}}
    assert lines("core.PersistentVolumeSource", old, {"nfs": {"server": "s", "path": "/a"}}) == [
        "  core.PersistentVolumeSource{",
        "  \tGCEPersistentDisk:    nil,",
        "  \tAWSElasticBlockStore: nil,",
        '- \tHostPath:             &core.HostPathVolumeSource{Path: "/a", Type: &""},',
        "+ \tHostPath:             nil,",
        "  \tGlusterfs:            nil,",
        "- \tNFS:                  nil,",
        '+ \tNFS:                  &core.NFSVolumeSource{Server: "s", Path: "/a"},',
        "  \tRBD:                  nil,",
        "  \tQuobyte:              nil,",
        "  \t... // 15 identical fields",
        "  }",
    ]


def test_changed_containers_are_shown_from_the_inside() -> None:
    old = {"containers": [{"name": "a", "image": "x", "resources": {"limits": {"cpu": "1"}}}]}
    container = {"name": "a", "image": "x", "resources": {"limits": {"cpu": "2"}}}
    shown = lines(POD, old, {"containers": [container | {"env": [{"name": "A", "value": "b"}]}]})
    amount = 'core.ResourceList{s"cpu": {i: resource.int64Amount{value: %s}, s: "%s", Format: "DecimalSI"}}'
    assert shown[3:17] == [
        "  \tContainers: []core.Container{",
        "  \t\t{",
        "  \t\t\t... // 5 identical fields",
        "  \t\t\tPorts:   nil,",
        "  \t\t\tEnvFrom: nil,",
        "- \t\t\tEnv:     nil,",
        '+ \t\t\tEnv:     []core.EnvVar{{Name: "A", Value: "b"}},',
        "  \t\t\tResources: core.ResourceRequirements{",
        f"- \t\t\t\tLimits:   {amount % (1, 1)},",
        f"+ \t\t\t\tLimits:   {amount % (2, 2)},",
        "  \t\t\t\tRequests: nil,",
        "  \t\t\t},",
        "  \t\t\tVolumeMounts:  nil,",
        "  \t\t\tVolumeDevices: nil,",
    ]


@pytest.mark.parametrize(
    ("old", "new", "marked"),
    [
        ("abc", "abxc", ["+x"]),
        ("abc", "ac", ["-b"]),
        ("abc", "cba", ["-a", "+c", "-c", "+a"]),
        ("", "a", ["+a"]),
    ],
)
def test_items_of_lists_are_paired(old: str, new: str, marked: list[str]) -> None:
    shown = difference("[]core.PersistentVolumeAccessMode", list(old), list(new)).splitlines()
    assert [line[0] + line.strip('+- \t",') for line in shown if line[0] in "+-"] == marked


def test_equal_values_have_no_difference() -> None:
    assert difference("core.PersistentVolumeClaimSpec", CLAIM, {**CLAIM, "selector": None}) == ""
    quantities = {"limits": {"cpu": "1000m"}}, {"limits": {"cpu": "1"}}
    assert difference("core.ResourceRequirements", *quantities) == ""


def test_of_records_that_differ_in_a_row_the_first_are_shown() -> None:
    """A refused update of 20,000 variables costs no seconds."""
    old = [{"name": f"a{i}", "value": "b"} for i in range(20_000)]
    text = difference("[]core.EnvVar", old, [{**a, "value": "c"} for a in old])
    assert text.count("\n") < 7 * ROW_MAX
    assert f"... // {20_000 - ROW_MAX} modified elements" in text
