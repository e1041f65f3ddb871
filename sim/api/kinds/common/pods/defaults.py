"""Defaults of pod specs, pod templates and volume claims.

Turns a spec or a template into the same one with upstream's defaults, and with the members that
upstream's encoding writes even when they are empty (`resources: {}`, a template's
`creationTimestamp: null`).

Holds: path copy only; the same object is returned if nothing is missing; defaulting twice is
defaulting once. Containers, volumes and whole specs are remembered by identity, so pods made from
one template share their defaulted parts and cost one look-up.

Mirrors  kubernetes v1.25 pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from sim.api.kinds.common.fill import all_of, amounts, each_of, fill, fill_zero, present, within
from sim.api.kinds.common.status import PROBE_TIMES, fill_conditions
from sim.api.memo import Remembered
from sim.api.types import Obj
from sim.patterns import pattern

# --- containers -----------------------------------------------------------------------------------

# docker/distribution reference grammar, of a name with its registry.
_IMAGE = pattern(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*(?::[0-9]+)?"
    r"(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)+)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?P<digest>@[A-Za-z][A-Za-z0-9]*:[0-9a-fA-F]{32,})?"
)
_IMAGE_ID = pattern("[a-f0-9]{64}")
_IMAGE_NAME_MAX = 255

_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}

_HTTP = {"path": "/", "scheme": "HTTP"}

TCP = {"protocol": "TCP"}


def pull_policy(image: str) -> str:
    """Always for the tag latest, explicit or implied; IfNotPresent otherwise."""
    match = _IMAGE.fullmatch(_whole_image(image))
    # An image that upstream cannot parse has no tag, so it is not the latest one.
    if match is None or len(match["name"]) > _IMAGE_NAME_MAX or _IMAGE_ID.fullmatch(image):
        return "IfNotPresent"
    tag = match["tag"] or ("" if match["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def _whole_image(image: str) -> str:
    """The image with its registry (docker/distribution reference/normalize.go: splitDockerDomain)."""
    host, slash, rest = image.partition("/")
    if not slash or not (set(host) & {".", ":"} or host == "localhost"):
        host, rest = "docker.io", image
    host = "docker.io" if host == "index.docker.io" else host
    return f"{host}/library/{rest}" if host == "docker.io" and "/" not in rest else f"{host}/{rest}"


def _probe(probe: Obj) -> Obj:
    probe = fill_zero(probe, _PROBE)
    probe = within(probe, "grpc", lambda grpc: present(grpc, {"service": ""}))
    return _action_ports(within(probe, "httpGet", lambda get: fill(get, _HTTP)))


def _action_ports(handler: Obj) -> Obj:
    """The handler with ports, which the encoding always writes."""
    for kind in ("httpGet", "tcpSocket"):
        handler = within(handler, kind, lambda action: present(action, {"port": 0}))
    return handler


def _hook(hook: Obj) -> Obj:
    return _action_ports(within(hook, "httpGet", lambda get: fill(get, _HTTP)))


def _lifecycle(lifecycle: Obj) -> Obj:
    return within(within(lifecycle, "postStart", _hook), "preStop", _hook)


def _env(env: Obj) -> Obj:
    return within(env, "valueFrom", _field_file)


def fill_resources(resources: Obj) -> Obj:
    """Limits and requests with quantities in their canonical text."""
    return within(within(resources, "limits", amounts), "requests", amounts)


def _container(container: Obj) -> Obj:
    container = fill(
        container,
        {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"},
    )
    if not container.get("imagePullPolicy"):
        container = {**container, "imagePullPolicy": pull_policy(container.get("image") or "")}
    container = within(present(container, {"resources": {}}), "resources", fill_resources)
    container = all_of(container, "ports", lambda port: fill(port, TCP))
    container = all_of(container, "env", _env)
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        container = within(container, probe, _probe)
    return within(container, "lifecycle", _lifecycle)


def _requests_from_limits(container: Obj) -> Obj:
    """The container with its limits as requests, where it has none; of pods, never of templates."""
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits"), resources.get("requests")
    if limits is None or (requests is not None and all(name in requests for name in limits)):
        return container
    return {**container, "resources": {**resources, "requests": {**limits, **(requests or {})}}}


# --- volumes --------------------------------------------------------------------------------------

_MODE = {"defaultMode": 420}

ISCSI = {"iscsiInterface": "default"}
RBD = {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}
AZURE_DISK = {"cachingMode": "ReadWrite", "kind": "Shared", "fsType": "ext4", "readOnly": False}
SCALE_IO = {"storageMode": "ThinProvisioned", "fsType": "xfs"}
_VOLUMES: dict[str, Mapping[str, Any]] = {
    "secret": _MODE,
    "configMap": _MODE,
    "downwardAPI": _MODE,
    "projected": _MODE,
    "iscsi": ISCSI,
    "rbd": RBD,
    "azureDisk": AZURE_DISK,
    "scaleIO": SCALE_IO,
}


def _field_file(item: Obj) -> Obj:
    """Defaults of an environment variable or a file that shows a field of the pod."""
    item = within(item, "resourceFieldRef", lambda ref: present(ref, {"divisor": "0"}))
    return within(item, "fieldRef", lambda ref: fill(ref, {"apiVersion": "v1"}))


def _projection(source: Obj) -> Obj:
    source = within(source, "serviceAccountToken", lambda token: fill(token, {"expirationSeconds": 3600}))
    return within(source, "downwardAPI", lambda api: all_of(api, "items", _field_file))


def _projected(value: Obj) -> Obj:
    return all_of(value, "sources", _projection)


def _volume(volume: Obj) -> Obj:
    if len(volume) == 1:  # a name without a source
        return {**volume, "emptyDir": {}}
    for source, defaults in _VOLUMES.items():
        if volume.get(source) is not None:
            volume = within(volume, source, partial(fill, defaults=defaults))
    volume = within(volume, "hostPath", lambda value: present(value, {"type": ""}))
    volume = within(volume, "downwardAPI", lambda api: all_of(api, "items", _field_file))
    volume = within(volume, "projected", _projected)

    def template(claim: Obj) -> Obj:
        return within(within(claim, "metadata", fill_creation_time), "spec", fill_claim_spec)

    return within(
        volume,
        "ephemeral",
        lambda value: within(value, "volumeClaimTemplate", lambda t: template(fill_metadata(t))),
    )


def fill_claim_spec(spec: Obj) -> Obj:
    """Defaults of the spec of a volume claim."""
    spec = present(spec, {"volumeMode": "Filesystem", "resources": {}})
    for source in ("dataSource", "dataSourceRef"):
        spec = within(spec, source, lambda value: present(value, {"apiGroup": None}))
    return within(spec, "resources", fill_resources)


def fill_claim(claim: Obj) -> Obj:
    """Defaults of a claim."""
    claim = within(present(claim, {"spec": {}, "status": {}}), "spec", fill_claim_spec)
    return within(claim, "status", _fill_claim_status)


def _fill_claim_status(status: Obj) -> Obj:
    status = within(fill(status, {"phase": "Pending"}), "capacity", amounts)
    return fill_conditions(within(status, "allocatedResources", amounts), PROBE_TIMES)


def fill_creation_time(metadata: Obj) -> Obj:
    """Metadata with the creation time that the encoding always writes."""
    return present(metadata, {"creationTimestamp": None})


def fill_metadata(obj: Obj) -> Obj:
    """An embedded object with its metadata."""
    return within(present(obj, {"metadata": {}}), "metadata", fill_creation_time)


# --- specs and templates --------------------------------------------------------------------------

_POD_SPEC = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30,
    "securityContext": {},
}


def _host_ports(container: Obj) -> Obj:
    def port(value: Obj) -> Obj:
        return value if value.get("hostPort") else {**value, "hostPort": value.get("containerPort", 0)}

    return all_of(container, "ports", port)


_containers = Remembered(lambda items: each_of(items, _container))

_volumes = Remembered(lambda items: each_of(items, _volume))


def _template_spec(spec: Obj) -> Obj:
    spec = fill(spec, _POD_SPEC)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:  # the deprecated field; serviceAccountName wins
        spec = fill(spec, {"serviceAccountName": account})
        if spec.get("serviceAccount") != account:
            spec = {**spec, "serviceAccount": account}
    for field in ("containers", "initContainers", "ephemeralContainers"):
        spec = within(spec, field, _containers)
    spec = within(spec, "overhead", amounts)
    if spec.get("hostNetwork"):
        for field in ("containers", "initContainers"):
            spec = all_of(spec, field, _host_ports)
    return within(spec, "volumes", _volumes)


def _pod_spec(spec: Obj) -> Obj:
    spec = fill(_template_spec(spec), {"enableServiceLinks": True})
    for field in ("containers", "initContainers"):
        spec = all_of(spec, field, _requests_from_limits)
    return spec


_template_specs = Remembered(_template_spec)

fill_pod_spec = Remembered(_pod_spec)


def _template(template: Obj) -> Obj:
    return within(fill_metadata(present(template, {"spec": {}})), "spec", _template_specs)


fill_template = Remembered(_template)
