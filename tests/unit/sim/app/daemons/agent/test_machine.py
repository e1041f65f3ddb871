"""The machine of a node agent that runs alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from sim.api.scheme.scheme import Scheme
from sim.app.daemons.agent.machine import machine_of, plan_of
from sim.app.daemons.agent.manifests import read_manifest
from sim.errors import InputError
from sim.ident import NAMES
from sim.options.node.alone import MachineSettings

NAMES_ = NAMES["kubernetes"]


def test_the_configuration_file_and_the_flags_give_the_options() -> None:
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "maxPods": 7,
        "staticPodPath": "/a",
        "syncFrequency": "2m",
    }
    settings = MachineSettings(machine_zone="a")
    plan, options = plan_of(NAMES_, settings, {"config": config, "hostname-override": "N1", "max-pods": "9"})
    assert (plan.name, options.max_pods, options.pod_manifest_path) == ("n1", 9, "/a")
    assert options.sync_frequency_us == 120_000_000
    machine = machine_of(NAMES_, plan, "https://127.0.0.1:1")
    assert machine.spec.address == "127.0.0.1"
    assert machine.spec.labels[NAMES_.label_zone] == "a"


def test_machines_have_ranges_of_their_own_and_no_folder_unless_named() -> None:
    ranges = []
    for name in ("n1", "n2"):
        plan, options = plan_of(NAMES_, MachineSettings(), {"hostname-override": name})
        ranges.append(machine_of(NAMES_, plan, "").spec.pod_cidr)
        assert options.pod_manifest_path == ""
    assert ranges[0] != ranges[1]


def test_a_wrong_option_is_named() -> None:
    with pytest.raises(InputError, match="node-labels"):
        plan_of(NAMES_, MachineSettings(), {"node-labels": "kubernetes.io/x=1"})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, image: i}]}", "a"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}", ""),
        ("apiVersion: v1\nkind: Pod\nmetadata: {}\nspec: {containers: [{name: c, image: i}]}", ""),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}", ""),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c, imge: i}]}", ""),
        ("a: [", ""),
    ],
)
def test_only_a_file_with_a_sound_pod_holds_a_pod(text: str, name: str, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(text)
    pod = read_manifest(Scheme(NAMES_), file)
    assert ("" if pod is None else pod["metadata"]["name"]) == name
    assert {each["spec"]["restartPolicy"] for each in [pod] if each} <= {"Always"}
