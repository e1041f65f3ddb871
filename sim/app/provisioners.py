"""Claims of a scenario that no process provisions, as notes before a run.

Turns a plan into a sentence for each provisioner of which claims wait in vain: their class names a
driver that `cluster.storage` does not have, or does not exist.

Holds: a claim that names its volume, and one of a class with volumes that are objects, gets no
    note.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sim.api.kinds.common.volumes.binding import MIGRATED
from sim.ident import NAMES, Names
from sim.patterns import pattern
from sim.scenario.check.endless import manifests_of
from sim.scenario.plan.plan import Plan

Manifest = Mapping[str, Any]
_DRIVER = pattern(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_PLUGINS = {moved.plugin: moved.driver for moved in MIGRATED.values()}
_SHOWN = 3  # claims in a note


def driver_of(provisioner: str, names: Names) -> str:
    """The process that has to provision for a provisioner of a class: the driver to which a plugin
    has migrated; "" if the controller manager provisions, or nothing has to.
    """
    short = provisioner.removeprefix(names.volume_plugin_prefix)
    if provisioner == names.provisioner_none or short in ("", "host-path"):
        return ""
    return _PLUGINS.get(short, provisioner) if short != provisioner else provisioner


def is_driver(provisioner: str) -> bool:
    """True for the name of a driver of the Container Storage Interface, which `storage` can have."""
    return bool(_DRIVER.fullmatch(provisioner))


def unprovisioned(plan: Plan) -> list[str]:
    """A note for each reason for which claims wait in vain."""
    names, manifests = NAMES[plan.cluster.naming], manifests_of(plan)
    classes = {each.class_name: "" for each in plan.cluster.storage}
    played = [each.driver.name for each in plan.cluster.storage]
    for obj in manifests:
        if obj["kind"] == "StorageClass":
            driver = driver_of(str(obj.get("provisioner", "")), names)
            classes[obj["metadata"]["name"]] = "" if driver in played else driver
    default = _default_class(plan, manifests, names)
    static = [_class_of(obj, "") for obj in manifests if obj["kind"] == "PersistentVolume"]
    waiting: dict[str, list[str]] = {}
    for shown, claim in _claims(manifests):
        name = _class_of(claim, default)
        if name == "" or name in static or (claim.get("spec") or {}).get("volumeName"):
            continue
        if reason := _reason(name, classes):
            waiting.setdefault(reason, []).append(shown)
    return [f"{plan.file or plan.name}: {reason} ({_shown(claims)})" for reason, claims in waiting.items()]


def _reason(name: str | None, classes: Mapping[str, str]) -> str:
    """Why claims of a class wait in vain; "" if they do not.  name: None for those without a class"""
    if name is None:
        return "claims without a class wait, since no class is the default: add `default: true` to one"
    if name not in classes:
        return f"no process provisions the class {name}: add {{driver: DRIVER, class: {name}}} to cluster.storage"
    driver = classes[name]
    if not driver:
        return ""
    if is_driver(driver):
        return f"no process provisions {driver}: add {{driver: {driver}, class: NAME}} to cluster.storage"
    return f"no process provisions {driver}: let a driver of cluster.storage have the class {name}"


def _shown(claims: list[str]) -> str:
    return ", ".join(claims[:_SHOWN]) + (f" and {len(claims) - _SHOWN} more" if len(claims) > _SHOWN else "")


def _default_class(plan: Plan, manifests: list[Manifest], names: Names) -> str | None:
    """The class of claims that name none."""
    marked = [each.class_name for each in plan.cluster.storage if each.default]
    for obj in manifests:
        marks = obj["metadata"].get("annotations") or {}
        if obj["kind"] == "StorageClass" and marks.get(names.annotation_default_storage_class) == "true":
            marked.append(obj["metadata"]["name"])
    return marked[0] if marked else None


def _class_of(obj: Manifest, default: str | None) -> str | None:
    given = (obj.get("spec") or {}).get("storageClassName")
    return default if given is None else str(given)


def _claims(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """The claims of manifests, and those that controllers make of them, with their names in words."""
    for obj in manifests:
        kind, spec = obj["kind"], obj.get("spec") or {}
        name = (obj.get("metadata") or {}).get("name", "")
        if kind == "PersistentVolumeClaim":
            yield f"PersistentVolumeClaim {name}", obj
        for template in (spec.get("volumeClaimTemplates") or ()) if kind == "StatefulSet" else ():
            yield f"{template['metadata']['name']} of StatefulSet {name}", template
        pod = spec if kind == "Pod" else (spec.get("template") or {}).get("spec") or {}
        for volume in pod.get("volumes") or ():
            if made := (volume.get("ephemeral") or {}).get("volumeClaimTemplate"):
                yield f"volume {volume.get('name')} of {kind} {name}", made
