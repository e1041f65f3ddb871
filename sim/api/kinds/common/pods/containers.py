"""Validation of the containers of a pod spec: ports, environment, mounts, probes, resources,
security.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go: validateContainers and what it
         calls.
"""

from __future__ import annotations

from typing import Any

from sim.api.go.printing import GoValue
from sim.api.kinds.common.pods.volumes import field_reference, resource_reference
from sim.api.kinds.common.pods.windows_options import windows_options
from sim.api.kinds.common.resources import requirements
from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import (
    AT_LEAST_ZERO,
    Errors,
    at_least_zero,
    checked,
    duplicate,
    forbidden,
    invalid,
    named,
    not_found,
    one_of,
    required,
    unsupported,
)
from sim.patterns import pattern

PROTOCOLS = ("SCTP", "TCP", "UDP")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_ENV_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.podIP",
    "status.podIPs",
)
_SECCOMP_TYPES = ("Localhost", "RuntimeDefault", "Unconfined")
_HEADER = pattern("[-A-Za-z0-9]+")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")


def containers(given: Any, field: str, volumes: dict[str, Obj]) -> Errors:
    """Errors of the main containers."""
    if not given:
        return [required(field)]
    errors: Errors = []
    names: dict[str, None] = {}
    for i, container in enumerate(given):
        at = f"{field}[{i}]"
        errors += _common(container, at, volumes)
        name = container.get("name", "")
        if name in names:
            errors.append(duplicate(f"{at}.name", name))
        names[name] = None
        if container.get("lifecycle"):
            errors += _lifecycle(container["lifecycle"], f"{at}.lifecycle")
        errors += _probes(container, at)
    return errors + _host_ports(given, field)


def _probes(container: Obj, at: str) -> Errors:
    errors: Errors = []
    for kind in ("livenessProbe", "readinessProbe", "startupProbe"):
        given = container.get(kind)
        if given is None:
            continue
        errors += _probe(given, f"{at}.{kind}")
        if kind == "readinessProbe":
            if given.get("terminationGracePeriodSeconds") is not None:
                detail = "must not be set for readinessProbes"
                value = given["terminationGracePeriodSeconds"]
                errors.append(invalid(f"{at}.{kind}.terminationGracePeriodSeconds", value, detail))
        elif given.get("successThreshold", 1) != 1:
            errors.append(invalid(f"{at}.{kind}.successThreshold", given["successThreshold"], "must be 1"))
    return errors


def init_containers(given: Any, field: str, others: Any, volumes: dict[str, Obj]) -> Errors:
    """Errors of init containers; their names must differ from those of the main containers."""
    errors: Errors = []
    names = dict.fromkeys(c.get("name", "") for c in others or ())
    for i, container in enumerate(given or ()):
        at = f"{field}[{i}]"
        errors += _common(container, at, volumes)
        name = container.get("name", "")
        if name in names:
            errors.append(duplicate(f"{at}.name", name))
        elif name:
            names[name] = None
        errors += _host_ports([container], field)
        for kind in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
            if container.get(kind) is not None:
                errors.append(forbidden(f"{at}.{kind}", "may not be set for init containers"))
    return errors


# In the order of the struct's fields.
_EPHEMERAL_FORBIDDEN = ("ports", "resources", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle")


def ephemeral_containers(given: Any, field: str, spec: Obj, volumes: dict[str, Obj]) -> Errors:
    """Errors of ephemeral containers."""
    errors: Errors = []
    targets = dict.fromkeys(c.get("name", "") for c in spec.get("containers") or ())
    names = targets | dict.fromkeys(c.get("name", "") for c in spec.get("initContainers") or ())
    for i, container in enumerate(given or ()):
        at = f"{field}[{i}]"
        errors += _common(container, at, volumes)
        errors += image_space(container.get("image", ""), f"{at}.image")
        name = container.get("name", "")
        if name in names:
            errors.append(duplicate(f"{at}.name", name))
        names[name] = None
        target = container.get("targetContainerName")
        if target and target not in targets:
            errors.append(not_found(f"{at}.targetContainerName", target))
        for key in _EPHEMERAL_FORBIDDEN:
            # Resources are no pointer in Go: empty ones are not set.
            if container.get(key) if key == "resources" else container.get(key) is not None:
                errors.append(forbidden(f"{at}.{key}", "cannot be set for an Ephemeral Container"))
        for j, mount in enumerate(container.get("volumeMounts") or ()):
            for key in ("subPath", "subPathExpr"):
                if mount.get(key):
                    detail = "cannot be set for an Ephemeral Container"
                    errors.append(forbidden(f"{at}.volumeMounts[{j}].{key}", detail))
    return errors


def image_space(image: str, field: str) -> Errors:
    """Errors of an image of a pod; templates may have blanks around it."""
    if image == image.strip():
        return []
    return [invalid(field, image, "must not have leading or trailing whitespace")]


def _common(container: Obj, at: str, volumes: dict[str, Obj]) -> Errors:
    errors: Errors = []
    name = container.get("name")
    errors += named(f"{at}.name", name, text.label)
    if not container.get("image"):
        errors.append(required(f"{at}.image"))
    policy = container.get("terminationMessagePolicy")
    if policy not in ("File", "FallbackToLogsOnError"):
        if not policy:
            errors.append(required(f"{at}.terminationMessagePolicy"))
        else:
            supported = ("File", "FallbackToLogsOnError")
            errors.append(unsupported(f"{at}.terminationMessagePolicy", policy, supported))
    errors += ports(container.get("ports"), f"{at}.ports")
    errors += environment(container.get("env"), f"{at}.env")
    errors += _env_from(container.get("envFrom"), f"{at}.envFrom")
    errors += _mounts(container, f"{at}.volumeMounts", volumes)
    errors += _devices(container, f"{at}.volumeDevices", volumes)
    errors += one_of(f"{at}.imagePullPolicy", container.get("imagePullPolicy"), PULL_POLICIES)
    resources = container.get("resources")
    if resources:
        errors += requirements(resources, f"{at}.resources")
    security = container.get("securityContext")
    if security:
        errors += _security(security, f"{at}.securityContext")
    return errors


# --- ports ----------------------------------------------------------------------------------------


def ports(given: Any, field: str) -> Errors:
    """Errors of the ports of one container."""
    errors: Errors = []
    names: dict[str, None] = {}
    for i, port in enumerate(given or ()):
        at = f"{field}[{i}]"
        name = port.get("name")
        if name:
            problems = text.port_name(name)
            errors += [invalid(f"{at}.name", name, problem) for problem in problems]
            if not problems and name in names:
                errors.append(duplicate(f"{at}.name", name))
            elif not problems:
                names[name] = None
        number, host = port.get("containerPort", 0), port.get("hostPort", 0)
        errors += named(f"{at}.containerPort", number, text.port_number)
        errors += checked(f"{at}.hostPort", host or None, text.port_number)
        errors += one_of(f"{at}.protocol", port.get("protocol"), PROTOCOLS)
    return errors


def host_network_errors(given: Any, field: str) -> Errors:
    """Errors of ports of main containers in a pod that uses the network of its node."""
    detail = "must match `hostPort` when `hostNetwork` is true"
    return [
        invalid(f"{field}[{i}].ports[{j}].containerPort", port.get("containerPort", 0), detail)
        for i, container in enumerate(given or ())
        for j, port in enumerate(container.get("ports") or ())
        if port.get("hostPort", 0) != port.get("containerPort", 0)
    ]


def _host_ports(given: Any, field: str) -> Errors:
    errors: Errors = []
    taken: dict[str, None] = {}
    for i, container in enumerate(given):
        for j, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in taken:
                errors.append(duplicate(f"{field}[{i}].ports[{j}].hostPort", key))
            taken[key] = None
    return errors


# --- environment ----------------------------------------------------------------------------------

_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef")


def environment(given: Any, field: str) -> Errors:
    """Errors of the environment variables of one container."""
    errors: Errors = []
    for i, variable in enumerate(given or ()):
        at = f"{field}[{i}]"
        name = variable.get("name")
        errors += named(f"{at}.name", name, text.env_name)
        source = variable.get("valueFrom")
        if source is not None:
            errors += _env_source(source, f"{at}.valueFrom", variable.get("value", ""))
    return errors


def _env_source(source: Obj, at: str, value: str) -> Errors:
    errors: Errors = []
    count = 0
    for kind in _ENV_SOURCES:
        reference = source.get(kind)
        if reference is None:
            continue
        count += 1
        field = f"{at}.{kind}"
        if kind == "fieldRef":
            errors += field_reference(reference, field, _ENV_FIELDS)
        elif kind == "resourceFieldRef":
            errors += resource_reference(reference, field, volume=False)
        else:
            errors += _key_reference(reference, field)
    if not count:
        detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        errors.append(invalid(at, "", detail))
    elif value:
        errors.append(invalid(at, "", "may not be specified when `value` is not empty"))
    elif count > 1:
        errors.append(invalid(at, "", "may not have more than one field specified at a time"))
    return errors


def _key_reference(reference: Obj, field: str) -> Errors:
    name, key = reference.get("name", ""), reference.get("key")
    errors = checked(f"{field}.name", name, text.subdomain)
    if not key:
        return [*errors, required(f"{field}.key")]
    return errors + checked(f"{field}.key", key, text.config_key)


def _env_from(given: Any, field: str) -> Errors:
    errors: Errors = []
    for i, source in enumerate(given or ()):
        at = f"{field}[{i}]"
        prefix = source.get("prefix")
        errors += checked(f"{at}.prefix", prefix or None, text.env_name)
        kinds = [kind for kind in ("configMapRef", "secretRef") if source.get(kind) is not None]
        for kind in kinds:
            name = source[kind].get("name", "")
            where = f"{at}.{kind}.name"
            if not name:
                errors.append(required(where))
            else:  # Quirk: checked as the begin of a generated name, so `a-` is accepted
                stem = name[:-1] + "a" if name.endswith("-") else name
                errors += [invalid(where, name, problem) for problem in text.subdomain(stem)]
        if not kinds:
            errors.append(invalid(field, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(kinds) > 1:
            errors.append(invalid(field, "", "may not have more than one field specified at a time"))
    return errors


# --- mounts ---------------------------------------------------------------------------------------


def _mounts(container: Obj, field: str, volumes: dict[str, Obj]) -> Errors:
    errors: Errors = []
    paths: dict[str, None] = {}
    devices = container.get("volumeDevices") or ()
    device_names = {d.get("name", ""): None for d in devices}
    device_paths = {d.get("devicePath", ""): None for d in devices}
    for i, mount in enumerate(container.get("volumeMounts") or ()):
        at = f"{field}[{i}]"
        name, path = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{at}.name"))
        if name not in volumes:
            errors.append(not_found(f"{at}.name", name))
        if not path:
            errors.append(required(f"{at}.mountPath"))
        if path in paths:
            errors.append(invalid(f"{at}.mountPath", path, "must be unique"))
        paths[path] = None
        if name in device_names:
            errors.append(invalid(f"{at}.name", name, "must not already exist in volumeDevices"))
        if path in device_paths:
            errors.append(
                invalid(f"{at}.mountPath", path, "must not already exist as a path in volumeDevices")
            )
        # Quirk: some errors lack the index.
        errors += _sub_path(mount, "subPath", field)
        if mount.get("subPath") and mount.get("subPathExpr"):
            detail = "subPathExpr and subPath are mutually exclusive"
            errors.append(invalid(f"{at}.subPathExpr", mount["subPathExpr"], detail))
        errors += _sub_path(mount, "subPathExpr", field)
        errors += _propagation(mount.get("mountPropagation"), container, f"{field}.mountPropagation")
    return errors


def _sub_path(mount: Obj, key: str, field: str) -> Errors:
    if not mount.get(key):
        return []
    return checked(f"{field}.{key}", mount[key], text.relative_path)


def _propagation(mode: Any, container: Obj, field: str) -> Errors:
    if mode is None:
        return []
    supported = ("Bidirectional", "HostToContainer", "None")
    if mode not in supported:
        return [unsupported(field, mode, supported)]
    privileged = (container.get("securityContext") or {}).get("privileged")
    if mode == "Bidirectional" and not privileged:
        return [
            forbidden(field, "Bidirectional mount propagation is available only to privileged containers")
        ]
    return []


def _devices(container: Obj, field: str, volumes: dict[str, Obj]) -> Errors:
    errors: Errors = []
    names: dict[str, None] = {}
    paths: dict[str, None] = {}
    mounts = container.get("volumeMounts") or ()
    mount_names = {m.get("name", ""): None for m in mounts}
    mount_paths = {m.get("mountPath", ""): None for m in mounts}
    for i, device in enumerate(container.get("volumeDevices") or ()):
        at = f"{field}[{i}]"
        name, path = device.get("name", ""), device.get("devicePath", "")
        if not name:
            errors.append(required(f"{at}.name"))
        if name in names:
            errors.append(invalid(f"{at}.name", name, "must be unique"))
        volume = volumes.get(name)
        if volume is not None and "persistentVolumeClaim" not in volume and "ephemeral" not in volume:
            detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            errors.append(invalid(f"{at}.name", name, detail))
        if volume is None:
            errors.append(not_found(f"{at}.name", name))
        if not path:
            errors.append(required(f"{at}.devicePath"))
        if path in paths:
            errors.append(invalid(f"{at}.devicePath", path, "must be unique"))
        if ".." in path.split("/"):
            errors.append(invalid(f"{at}.devicePath", path, "can not contain backsteps ('..')"))
        else:
            paths[path] = None
        if name in mount_names:
            errors.append(invalid(f"{at}.name", name, "must not already exist in volumeMounts"))
        if path in mount_paths:
            errors.append(
                invalid(f"{at}.devicePath", path, "must not already exist as a path in volumeMounts")
            )
        if name:
            names[name] = None
    return errors


# --- handlers -------------------------------------------------------------------------------------


def _lifecycle(lifecycle: Obj, field: str) -> Errors:
    errors: Errors = []
    for kind in ("postStart", "preStop"):
        if lifecycle.get(kind) is not None:
            errors += _handler(lifecycle[kind], f"{field}.{kind}", _HANDLERS[:3])
    return errors


def _probe(probe: Obj, field: str) -> Errors:
    errors = _handler(probe, field, _HANDLERS)
    for key in (
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ):
        errors += at_least_zero(f"{field}.{key}", probe.get(key))
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        errors.append(invalid(f"{field}.terminationGracePeriodSeconds", grace, "must be greater than 0"))
    return errors


def _handler(handler: Obj, field: str, kinds: tuple[str, ...]) -> Errors:
    errors: Errors = []
    count = 0
    for kind in kinds:
        action = handler.get(kind)
        if action is None:
            continue
        count += 1
        at = f"{field}.{kind}"
        if count > 1:
            errors.append(forbidden(at, "may not specify more than 1 handler type"))
        else:
            errors += _action(kind, action, at)
    if not count:
        errors.append(required(field, "must specify a handler type"))
    return errors


def _action(kind: str, action: Obj, at: str) -> Errors:
    if kind == "exec":
        return [] if action.get("command") else [required(f"{at}.command")]
    if kind == "grpc":
        return [
            invalid(f"{at}.port", action.get("port", 0), p) for p in text.port_number(action.get("port", 0))
        ]
    errors: Errors = []
    if kind == "httpGet" and not action.get("path"):
        errors.append(required(f"{at}.path"))
    errors += port_or_name(action.get("port"), f"{at}.port")
    if kind == "httpGet":
        scheme = action.get("scheme")
        if scheme not in ("HTTP", "HTTPS"):
            errors.append(unsupported(f"{at}.scheme", scheme or "", ("HTTP", "HTTPS")))
        for header in action.get("httpHeaders") or ():
            name = header.get("name", "")
            if not _HEADER.fullmatch(name):
                detail = (
                    "a valid HTTP header must consist of alphanumeric characters or '-'"
                    " (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')"
                )
                errors.append(invalid(f"{at}.httpHeaders", name, detail))
    return errors


def port_or_name(port: Any, field: str) -> Errors:
    """Errors of a port that is given by number or by name."""
    if isinstance(port, str):
        return checked(field, port, text.port_name)
    return [invalid(field, port or 0, problem) for problem in text.port_number(port or 0)]


# --- security -------------------------------------------------------------------------------------


def _security(security: Obj, field: str) -> Errors:
    errors: Errors = []
    for key in ("runAsUser", "runAsGroup"):
        errors += checked(f"{field}.{key}", security.get(key), text.user_id)
    errors += seccomp(security.get("seccompProfile"), f"{field}.seccompProfile")
    if security.get("allowPrivilegeEscalation") is False:
        if security.get("privileged"):
            detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            errors.append(invalid(field, GoValue("core.SecurityContext", security), detail))
        if "CAP_SYS_ADMIN" in ((security.get("capabilities") or {}).get("add") or ()):
            detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            errors.append(invalid(field, GoValue("core.SecurityContext", security), detail))
    return errors + windows_options(security, field)


def seccomp(profile: Any, field: str) -> Errors:
    """Errors of a seccomp profile."""
    if profile is None:
        return []
    kind, local = profile.get("type"), profile.get("localhostProfile")
    errors: Errors = []
    errors += one_of(f"{field}.type", kind, _SECCOMP_TYPES, "type is required when seccompProfile is set")
    if kind == "Localhost":
        if local is None:
            errors.append(required(f"{field}.localhostProfile", "must be set when seccomp type is Localhost"))
        else:
            errors += checked(f"{field}.localhostProfile", local, text.relative_path)
    elif local is not None:
        detail = "can only be set when seccomp type is Localhost"
        errors.append(invalid(f"{field}.localhostProfile", GoValue("core.SeccompProfile", profile), detail))
    return errors


__all__ = [
    "AT_LEAST_ZERO",
    "containers",
    "ephemeral_containers",
    "init_containers",
    "port_or_name",
    "seccomp",
]
