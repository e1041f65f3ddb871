"""Warnings about pods and pod templates: fields that are allowed but have no effect any more, and
likely mistakes.

Turns a valid object into the texts of its `Warning` headers, in upstream's order.

Mirrors  kubernetes v1.25 pkg/api/pod/warnings.go, pkg/api/node/util.go (deprecated labels),
         pkg/registry/*/*/strategy.go
         (WarningsOnCreate, WarningsOnUpdate: which path, and when).
Differs  the cluster's own components get no such warnings, because they read none.  Labels of a
         node selector come in the order of the object, upstream's in a random one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from sim.api.schema.json_text import go_quote
from sim.api.types import Json, Obj
from sim.ident import Names
from sim.units import quantity_text, quantity_wrapped_milli

EMPTY: Obj = {}

_VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, support removal is planned in v1.26",
    "storageos": "deprecated in v1.22, support removal is planned in v1.26",
    "quobyte": "deprecated in v1.22, support removal is planned in v1.26",
    "glusterfs": "deprecated in v1.25, this feature will be removed soon after in a subsequent release",
}

_SIZES = ("memory", "ephemeral-storage")

_SECCOMP = (
    'deprecated since v1.19, non-functional in a future release; use the "seccompProfile" field instead'
)


@lru_cache(maxsize=4)
def replaced_node_labels(names: Names) -> dict[str, str]:
    """Labels of nodes that other labels have replaced, with the text of the warning."""
    replaced = (
        (names.label_beta_arch, names.label_arch, "v1.14"),
        (names.label_beta_os, names.label_os, "v1.14"),
        (names.label_beta_region, names.label_region, "v1.17"),
        (names.label_beta_zone, names.label_zone, "v1.17"),
        (names.label_beta_instance_type, names.label_instance_type, "v1.17"),
    )
    return {old: f'deprecated since {since}; use "{new}" instead' for old, new, since in replaced}


def template_warnings(obj: Obj, old: Obj | None, names: Names, path: tuple[str, ...]) -> list[str]:
    """Warnings about the template at `path` of a created object, or of an update that changes the
    spec.
    """
    if old is not None and keeps_generation(obj, old):
        return []
    return list(warnings_of_template(template_at(obj, path), "".join(f"{part}." for part in path), names))


def template_at(obj: Obj, path: tuple[str, ...]) -> Obj:
    """The pod template at `path`; {} if it is missing."""
    for part in path:
        obj = obj.get(part) or EMPTY
    return obj


def keeps_generation(obj: Obj, old: Obj) -> bool:
    """True if an update does not change the generation, so that it gets no warnings.  Pods have
    none.
    """
    return bool(obj["metadata"].get("generation") == old["metadata"].get("generation"))


def warnings_of_template(template: Obj, path: str, names: Names) -> Iterator[str]:
    """Warnings about a pod, or a pod template, at `path`."""
    spec = template.get("spec") or EMPTY
    annotations = (template.get("metadata") or EMPTY).get("annotations") or EMPTY
    yield from _node_labels(spec, f"{path}spec.", replaced_node_labels(names))
    yield from _annotations(annotations, path, names)
    for index, volume in enumerate(spec.get("volumes") or ()):
        for source, text in _VOLUMES.items():
            if volume.get(source) is not None:
                # Quirk: the path is spelled differently from the field.
                shown = "storageOS" if source == "storageos" else source
                yield f"{path}spec.volumes[{index}].{shown}: {text}"
    yield from _repeated(spec.get("hostAliases") or (), "ip", f"{path}spec.hostAliases")
    secrets = spec.get("imagePullSecrets") or ()
    yield from _repeated(secrets, "name", f"{path}spec.imagePullSecrets")
    for index, secret in enumerate(secrets):
        if not secret.get("name"):
            yield f'{path}spec.imagePullSecrets[{index}].name: invalid empty name ""'
    yield from _fractional(spec.get("overhead") or EMPTY, _SIZES, f"{path}spec.overhead")
    if names.annotation_seccomp_pod in annotations and not _has_seccomp(spec):
        yield f"{path}metadata.annotations[{names.annotation_seccomp_pod}]: {_SECCOMP}"
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            key = names.annotation_seccomp_container_prefix + str(container.get("name", ""))
            if key in annotations and not _has_seccomp(container):
                yield f"{path}metadata.annotations[{key}]: {_SECCOMP}"
            yield from _container(container, f"{path}spec.{field}[{index}]")


def _container(container: Obj, at: str) -> Iterator[str]:
    resources = container.get("resources") or EMPTY
    for kind in ("limits", "requests"):
        yield from _fractional(resources.get(kind) or EMPTY, _SIZES, f"{at}.resources.{kind}")
    yield from _repeated(container.get("env") or (), "name", f"{at}.env")


def _has_seccomp(value: Obj) -> bool:
    return (value.get("securityContext") or EMPTY).get("seccompProfile") is not None


def _annotations(annotations: Obj, path: str, names: Names) -> Iterator[str]:
    sysctls = 'non-functional in v1.11+; use the "sysctls" field instead'
    known = (
        (
            names.annotation_critical_pod,
            'non-functional in v1.16+; use the "priorityClassName" field instead',
        ),
        (f"security.alpha.{names.domain}/sysctls", sysctls),
        (f"security.alpha.{names.domain}/unsafe-sysctls", sysctls),
    )
    for key, text in known:
        if key in annotations:
            yield f"{path}metadata.annotations[{key}]: {text}"


def _node_labels(spec: Obj, path: str, labels: dict[str, str]) -> Iterator[str]:
    for key in spec.get("nodeSelector") or EMPTY:
        if key in labels:
            yield f"{path}nodeSelector[{key}]: {labels[key]}"
    affinity = (spec.get("affinity") or EMPTY).get("nodeAffinity") or EMPTY
    at = f"{path}affinity.nodeAffinity."
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    for index, term in enumerate((affinity.get(field) or EMPTY).get("nodeSelectorTerms") or ()):
        yield from _term(term, f"{at}{field}.nodeSelectorTerms[{index}]", labels)
    field = "preferredDuringSchedulingIgnoredDuringExecution"
    for index, weighted in enumerate(affinity.get(field) or ()):
        yield from _term(weighted.get("preference") or EMPTY, f"{at}{field}[{index}].preference", labels)
    for index, spread in enumerate(spec.get("topologySpreadConstraints") or ()):
        key = spread.get("topologyKey", "")
        if key in labels:
            yield f"{path}topologySpreadConstraints[{index}].topologyKey: {key} is {labels[key]}"


def _term(term: Obj, at: str, labels: dict[str, str]) -> Iterator[str]:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        key = expression.get("key", "")
        if key in labels:
            yield f"{at}.matchExpressions[{index}].key: {key} is {labels[key]}"


def _repeated(items: Json, field: str, at: str) -> Iterator[str]:
    met: dict[str, None] = {}
    for index, item in enumerate(items):
        value = item.get(field) or ""
        if value in met:
            yield f"{at}[{index}].{field}: duplicate {field} {go_quote(value)}"
        met[value] = None


def _fractional(amounts: Obj, of: tuple[str, ...], at: str) -> Iterator[str]:
    for name in of:
        if name in amounts and quantity_wrapped_milli(amounts[name]) % 1000:
            text = quantity_text(amounts[name])
            yield f'{at}[{name}]: fractional byte value "{text}" is invalid, must be an integer'
