"""The environment of a container, and its command line with variables in it.  Pure.

Turns a container, the objects that it refers to, the Services of its namespace and what only the
agent knows into names and values, in the order of upstream's list.

Mirrors  pkg/kubelet/kubelet_pods.go: makeEnvironmentVariables, getServiceEnvVarMap,
         podFieldSelectorRuntimeValue; pkg/kubelet/envvars/envvars.go: FromServices;
         pkg/kubelet/container/helpers.go: ExpandContainerCommandAndArgs; third_party/forked/golang/
         expansion/expand.go; pkg/api/v1/resource/helpers.go: ExtractContainerResourceValue,
         MergeContainerResourceLimits (v1.25).
Differs  upstream's order is that of a map, so that it is random; here variables of whole objects
         come first, then the container's own, then those of Services by name.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping

from sim.api.types import Obj
from sim.dataclass import dataclass
from sim.patterns import pattern
from sim.units import quantity_milli, quantity_value

_REFERENCE = pattern(r"\$(?:\$|\(([^)]*)\))")
_SUBSCRIPT = pattern(r"metadata\.(labels|annotations)\['(.*)'\]")
# apimachinery/pkg/util/validation: IsEnvVarName
_VARIABLE = pattern(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
LIMITED = ("cpu", "memory", "ephemeral-storage")  # without a limit of their own: what the node offers


@dataclass(frozen=True, slots=True)
class Facts:
    """What only the agent knows of a pod.

    fields: field path -> value
    allocatable: resource -> quantity text, of the node
    services: variables of Services
    """

    fields: Mapping[str, str]
    allocatable: Mapping[str, str]
    services: Mapping[str, str]


def is_variable(name: str) -> bool:
    """True if a variable may have this name."""
    return bool(_VARIABLE.fullmatch(name)) and name != "." and not name.startswith("..")


def expanded(text: str, value_of: Callable[[str], str | None]) -> str:
    """The text with `$(NAME)` replaced by its value; a name without a value stays, `$$` is `$`."""

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        value = value_of(match[1])
        return match[0] if value is None else value

    return _REFERENCE.sub(replacement, text)


def expanded_words(words: Iterable[str], variables: Mapping[str, str]) -> list[str]:
    """The words of a command line with the container's variables in them."""
    return [expanded(word, variables.get) for word in words]


def environment(
    pod: Obj, container: Obj, objects: Mapping[tuple[str, str], Obj], facts: Facts
) -> dict[str, str]:
    """The values of a container's variables.

    objects: (resource, name) -> the ConfigMaps and Secrets that they are made of
    """
    services = facts.services
    found: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        for part, resource in (("configMapRef", "configmaps"), ("secretRef", "secrets")):
            if part in source:
                prefix = source.get("prefix", "")
                data = _data(objects, resource, source[part])
                found.update({prefix + key: v for key, v in data.items() if is_variable(prefix + key)})
    for variable in container.get("env") or ():
        name, source = variable["name"], variable.get("valueFrom")
        if source is None:
            found[name] = expanded(variable.get("value") or "", lambda key: found.get(key, services.get(key)))
        elif (value := _sourced(pod, container, source, objects, facts)) is not None:
            found[name] = value
    return {**found, **{key: value for key, value in services.items() if key not in found}}


def _sourced(
    pod: Obj,
    container: Obj,
    source: Obj,
    objects: Mapping[tuple[str, str], Obj],
    facts: Facts,
) -> str | None:
    """The value of a variable that is read from somewhere."""
    if "fieldRef" in source:
        return field_value(pod, source["fieldRef"]["fieldPath"], facts.fields)
    if "resourceFieldRef" in source:
        return resource_value(pod, container, source["resourceFieldRef"], facts.allocatable)
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


def field_value(pod: Obj, path: str, runtime: Mapping[str, str]) -> str:
    """The value of a field of the pod; runtime: of fields that only the agent knows."""
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


def resource_value(pod: Obj, container: Obj, reference: Obj, allocatable: Mapping[str, str]) -> str:
    """A limit or request of a container of the pod in units of a divisor, rounded up."""
    containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    named = [c for c in containers if c["name"] == reference.get("containerName")] or [container]
    kind, _, resource = reference["resource"].partition(".")
    text = ((named[0].get("resources") or {}).get(kind) or {}).get(resource)
    if text is None and kind == "limits" and resource in LIMITED:
        text = allocatable.get(resource)
    divisor = str(reference.get("divisor") or "1")
    divisor = "1" if divisor == "0" else divisor
    size = quantity_milli if resource == "cpu" else quantity_value
    return str(-(-size(str(text or "0")) // size(divisor)))


# --- Services -------------------------------------------------------------------------------------


def variables_of_services(
    services: Iterable[Obj], namespace: str, *, links: bool, master: tuple[str, str]
) -> dict[str, str]:
    """The variables by which the containers of a namespace find Services.

    links: True if the pod wants those of its own namespace
    master: namespace and name of the API's Service, which all pods get
    """
    chosen: dict[str, Obj] = {}
    for service in services:
        meta = service["metadata"]
        name, own = meta["name"], meta["namespace"] == namespace
        if (service["spec"].get("clusterIP") or "None") == "None":
            continue
        if own and links:
            chosen[name] = service
        elif (meta["namespace"], name) == master:
            chosen.setdefault(name, service)
    found: dict[str, str] = {}
    for name in sorted(chosen):
        found.update(_service_variables(name, chosen[name]["spec"]))
    return found


def _service_variables(name: str, spec: Obj) -> dict[str, str]:
    ports, address = spec.get("ports") or (), spec["clusterIP"]
    if not ports:
        return {}
    prefix = _variable_name(name)
    found = {f"{prefix}_SERVICE_HOST": address, f"{prefix}_SERVICE_PORT": str(ports[0]["port"])}
    for port in ports:
        if port.get("name"):
            found[f"{prefix}_SERVICE_PORT_{_variable_name(port['name'])}"] = str(port["port"])
    host = f"[{address}]" if ":" in address else address
    for index, port in enumerate(ports):
        protocol, number = str(port.get("protocol") or "TCP"), port["port"]
        url = f"{protocol.lower()}://{host}:{number}"
        if not index:
            found[f"{prefix}_PORT"] = url
        own = f"{prefix}_PORT_{number}_{protocol.upper()}"
        found |= {
            own: url, f"{own}_PROTO": protocol.lower(), f"{own}_PORT": str(number), f"{own}_ADDR": address,
        }  # fmt: skip
    return found


def _variable_name(name: str) -> str:
    return name.replace("-", "_").upper()
