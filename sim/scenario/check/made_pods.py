"""The pods that a scenario makes, as far as its manifests show.

Turns manifests into `Template`s, and decides whether a step that selects pods by namespace, labels,
name, image and container can ever find one.

Holds: what is unknown (a scenario that makes no pods, labels that controllers add, names that are
    drawn) is assumed to match.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sim.dataclass import dataclass
from sim.faults.machines.manifest import ChangeManifest
from sim.faults.machines.workload import Behave
from sim.scenario.actions.apply import ApplyObjects
from sim.scenario.actions.load import Generate
from sim.scenario.actions.patch import PatchObjects
from sim.scenario.plan.plan import NodePlan, PlannedStep

# Labels that controllers add to their pods, by the ends of their names.
GIVEN = ("-hash", "/pod-name", "job-name", "controller-uid", "-index", "-generation")


@dataclass(frozen=True, slots=True)
class Template:
    """A group of equal pods.

    name: of the pod; if `made`, of the object that makes the pods, which is a prefix of their names
    """

    namespace: str
    name: str
    made: bool
    labels: Mapping[str, str]
    images: tuple[str, ...]
    containers: tuple[str, ...]


def templates(manifests: Iterable[Mapping[str, Any]]) -> list[Template]:
    """The templates of all manifests that make pods."""
    found = []
    for manifest in manifests:
        spec = manifest.get("spec") or {}
        pod = manifest if manifest.get("kind") == "Pod" else None
        if manifest.get("kind") == "CronJob":
            spec = (spec.get("jobTemplate") or {}).get("spec") or {}
        if pod is None and isinstance(spec.get("template"), Mapping):
            pod = spec["template"]
        if pod is not None:
            found.append(_template(manifest, pod))
    return found


def _template(manifest: Mapping[str, Any], pod: Mapping[str, Any]) -> Template:
    meta, own = manifest["metadata"], pod.get("metadata") or {}
    spec = pod.get("spec") or {}
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return Template(
        str(meta.get("namespace") or "default"),
        str(meta.get("name", "")),
        pod is not manifest,
        own.get("labels") or {},
        tuple(str(container.get("image", "")) for container in containers),
        tuple(str(container.get("name", "")) for container in containers),
    )


def made_by(
    objects: Iterable[Mapping[str, Any]], nodes: Iterable[NodePlan], steps: Iterable[PlannedStep]
) -> list[Template] | None:
    """The templates of all pods that a scenario makes; None if its manifests do not show them."""
    manifests = [*objects, *(pod for node in nodes for pod in node.static_pods)]
    for step in steps:
        for choice in step.choices:
            match choice.action:
                case ChangeManifest(manifest=Mapping() as written):
                    manifests.append(written)
                case ApplyObjects(applied):
                    manifests += applied
                case Generate(create=Mapping() as created):
                    manifests.append(created)
                case PatchObjects():
                    return None  # a patch may change labels and images
    return templates(manifests) or None


def may_find(behave: Behave, template: Template) -> bool:
    """True if the step may select some of these pods."""
    prefix, name = behave.prefix, template.name
    named = name.startswith(prefix) or (template.made and prefix.startswith(f"{name}-"))
    return (
        behave.namespace in ("", template.namespace)
        and named
        and all(template.labels.get(key) == value or is_given(key) for key, value in behave.labels.items())
        and (not behave.image or behave.image in template.images)
        and (not behave.container or behave.container in template.containers)
    )


def is_given(label: str) -> bool:
    """True if controllers add such a label to their pods."""
    return label.endswith(GIVEN)
