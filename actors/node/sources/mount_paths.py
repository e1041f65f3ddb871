"""The paths in volumes that a container mounts, with its variables in them.  Pure.

Turns a container and the values of its environment into the error of a mount with a path that
cannot be made.

Mirrors  pkg/kubelet/kubelet_pods.go: makeMounts, makeEnvironmentVariables, podFieldSelectorRuntimeValue;
         pkg/kubelet/container/helpers.go: ExpandContainerVolumeMounts; third_party/forked/golang/
         expansion/expand.go; pkg/volume/validation/pv_validation.go: ValidatePathNoBacksteps (v1.25).
Differs  the variables of services are not made: a path that names one has no value for it.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Mapping

from sim.api.types import Obj
from sim.patterns import pattern
from sim.units import quantity_milli, quantity_value

_REFERENCE = pattern(r"\$(?:\$|\(([^)]*)\))")
_SUBSCRIPT = pattern(r"metadata\.(labels|annotations)\['(.*)'\]")


def expands_paths(container: Obj) -> bool:
    """True if a path in a volume of the container holds variables."""
    return any(mount.get("subPathExpr") for mount in container.get("volumeMounts") or ())


def expanded(text: str, value_of: Callable[[str], str | None]) -> str:
    """The text with `$(NAME)` replaced by its value; a name without a value stays, `$$` is `$`."""

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        value = value_of(match[1])
        return match[0] if value is None else value

    return _REFERENCE.sub(replacement, text)


def environment(
    pod: Obj, container: Obj, objects: Mapping[tuple[str, str], Obj], runtime: Mapping[str, str]
) -> dict[str, str]:
    """The values of a container's variables.

    objects: (resource, name) -> the ConfigMaps and Secrets that they are made of
    runtime: field path -> the value that only the agent knows
    """
    found: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        for part, resource in (("configMapRef", "configmaps"), ("secretRef", "secrets")):
            if part in source:
                prefix = source.get("prefix", "")
                data = _data(objects, resource, source[part])
                found.update({prefix + key: value for key, value in data.items()})
    for variable in container.get("env") or ():
        name, source = variable["name"], variable.get("valueFrom")
        if source is None:
            found[name] = expanded(variable.get("value") or "", found.get)
        elif (value := _sourced(pod, container, source, objects, runtime)) is not None:
            found[name] = value
    return found


def _sourced(
    pod: Obj,
    container: Obj,
    source: Obj,
    objects: Mapping[tuple[str, str], Obj],
    runtime: Mapping[str, str],
) -> str | None:
    """The value of a variable that is read from somewhere."""
    if "fieldRef" in source:
        return _field(pod, source["fieldRef"]["fieldPath"], runtime)
    if "resourceFieldRef" in source:
        return _resource(pod, container, source["resourceFieldRef"])
    for part, resource in (("configMapKeyRef", "configmaps"), ("secretKeyRef", "secrets")):
        if part in source:
            return _data(objects, resource, source[part]).get(source[part]["key"])
    return None


def _data(objects: Mapping[tuple[str, str], Obj], resource: str, reference: Obj) -> dict[str, str]:
    """The values of a ConfigMap or a Secret by their keys; none if there is no such object."""
    held = (objects.get((resource, reference.get("name", ""))) or {}).get("data") or {}
    if resource == "configmaps":
        return dict(held)
    return {key: b64decode(value).decode(errors="replace") for key, value in held.items()}


def _field(pod: Obj, path: str, runtime: Mapping[str, str]) -> str:
    meta, spec = pod["metadata"], pod["spec"]
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript is not None:
        return str((meta.get(subscript[1]) or {}).get(subscript[2], ""))
    known = {
        "metadata.name": meta["name"],
        "metadata.namespace": meta.get("namespace", ""),
        "metadata.uid": meta.get("uid", ""),
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
    }
    return str(known.get(path, runtime.get(path, "")))


def _resource(pod: Obj, container: Obj, reference: Obj) -> str:
    containers = pod["spec"]["containers"]
    named = [c for c in containers if c["name"] == reference.get("containerName")] or [container]
    kind, _, resource = reference["resource"].partition(".")
    text = str(((named[0].get("resources") or {}).get(kind) or {}).get(resource, "0"))
    divisor = str(reference.get("divisor") or "1")
    divisor = "1" if divisor == "0" else divisor
    if resource == "cpu":
        return str(-(-quantity_milli(text) // quantity_milli(divisor)))
    return str(-(-quantity_value(text) // quantity_value(divisor)))


def path_problem(container: Obj, variables: Mapping[str, str]) -> str:
    """Why a mount of the container cannot be made; "" if all can."""
    for mount in container.get("volumeMounts") or ():
        text = mount.get("subPathExpr")
        if not text:
            continue  # the API has checked a path without variables
        missing: list[str] = []

        def value_of(name: str, missing: list[str] = missing) -> str:
            if not variables.get(name):
                missing.append(name)
            return variables.get(name, "")

        path = expanded(text, value_of)
        if missing:
            return f"missing value for {', '.join(sorted(dict.fromkeys(missing)))}"
        if path.startswith("/"):
            return f"error SubPath `{path}` must not be an absolute path"
        if ".." in path.split("/"):
            return f"unable to provision SubPath `{path}`: must not contain '..'"
    return ""
