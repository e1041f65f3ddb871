"""Conditions about objects that a scenario never has are rejected; unknown ones are allowed."""

from pathlib import Path

import pytest

from sim.app.possible import expectations_of
from sim.errors import InputError
from sim.scenario.compile import load
from sim.scenario.plan.plan import Plan

SCENARIO = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {{name: small}}
spec:
  duration: 5m
  cluster: {{naming: {naming}, nodes: [{{count: 3}}]}}
  objects:
    - {{apiVersion: v1, kind: Namespace, metadata: {{name: shop}}}}
    - apiVersion: apps/v1
      kind: Deployment
      metadata: {{name: web, namespace: shop}}
      spec:
        selector: {{matchLabels: {{app: web}}}}
        template: {{metadata: {{labels: {{app: web}}}}, spec: {{containers: [{{name: c, image: "r/c:1"}}]}}}}
  timeline:
    - {{at: 1m, apply: {{objects: [{{apiVersion: v1, kind: Namespace, metadata: {{name: later}}}}]}}}}
    {step}
  expect:
    - name: it
      eventually: {matter}
"""
ANY_LOAD = (
    "- {at: 1m, for: 1m, load: {rate: 1/s, create: {apiVersion: v1, kind: Namespace, metadata: {name: n}}}}"
)
PATCH = '- {at: 1m, patch: {resource: deployments, namespace: shop, name: web, merge: {metadata: {labels: {a: "b"}}}}}'
MATTERS = [
    (
        "any pods in namespace {} are Running",
        "shop",
        "shp",
        "there is no namespace 'shp' (did you mean 'shop'?)",
    ),
    ("any pods in namespace {} are Running", "sh*,later", "shop,l?ter?", "there is no namespace 'l?ter?' ("),
    (
        "any namespaces named {} are Active",
        "later",
        "latter",
        "there is no namespace 'latter' (did you mean 'later'?)",
    ),
    (
        "no pods in namespace {} exist",
        "default",
        "defaults",
        "there is no namespace 'defaults' (did you mean",
    ),
    (
        "any leases in namespace {} are held",
        "kube-system",
        "zzz",
        "there is no namespace 'zzz' (there are shop, later",
    ),
    (
        "any leases in namespace {} are held",
        "orch-node-lease",
        "orc-node-lease",
        "there is no namespace 'orc-node-l",
    ),
    ("{{created: pods, where: {{namespace: {}}}}}", "shop", "shp", "there is no namespace 'shp'"),
    ("{{event: Killing, where: {{namespace: {}}}}}", "shop", "shp", "there is no namespace 'shp'"),
    (
        "any deployments named {} have status.replicas=1",
        "w*",
        "wbe",
        "makes no deployments 'wbe' (did you mean 'web'?)",
    ),
    ("any cronjobs in namespace {} exist", "shop", "shp", "there is no namespace 'shp'"),
    (
        "any pods labelled {} are Running",
        "app=web",
        "app=wbe",
        "no pods here are labelled 'app=wbe' (did you mean",
    ),
    (
        "any pods labelled {} are Running",
        "pod-template-hash=1",
        "tier=x",
        "no pods here are labelled 'tier=x' (there",
    ),
]


def planned(folder: Path, matter: str, step: str = "", naming: str = "orch") -> Plan:
    file = folder / "small.yaml"
    file.write_text(SCENARIO.format(matter=matter, step=step, naming=naming))
    return load(file)


@pytest.mark.parametrize(("matter", "there", "missing", "says"), MATTERS)
@pytest.mark.parametrize("naming", ["orch", "kubernetes"])
def test_condition_about_impossible_objects_is_rejected_at_its_place(
    tmp_path: Path, matter: str, there: str, missing: str, says: str, naming: str
) -> None:
    assert expectations_of(planned(tmp_path, matter.format(there), naming=naming))
    wrong = planned(tmp_path, matter.format(missing), naming=naming)
    with pytest.raises(InputError) as found:
        expectations_of(wrong)
    assert says in str(found.value) and found.value.place.endswith("small.yaml:20:7")
    assert expectations_of(wrong, alone=False)  # a client may make the object


def test_step_that_waits_for_impossible_objects_is_rejected(tmp_path: Path) -> None:
    step = "- {when: any pods in namespace shp are Running, cordon: {nodes: {}}}"
    with pytest.raises(InputError, match=r"small.yaml:18:7: there is no namespace 'shp'"):
        expectations_of(planned(tmp_path, "any nodes are ready", step))


def test_objects_that_loads_and_patches_may_make_are_possible(tmp_path: Path) -> None:
    assert expectations_of(planned(tmp_path, "any namespaces named n-1 exist", ANY_LOAD))
    assert expectations_of(planned(tmp_path, "any pods labelled tier=x are Running", PATCH))
