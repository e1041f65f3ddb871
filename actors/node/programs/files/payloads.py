"""The content of volumes that are made of objects: ConfigMaps, Secrets, fields of the pod, tokens.

Turns the source of a volume and the objects that it names into paths with bytes and modes.

Mirrors  pkg/volume/configmap/configmap.go, pkg/volume/secret/secret.go: MakePayload;
         pkg/volume/downwardapi/downwardapi.go: CollectData; pkg/volume/projected/projected.go:
         collectData; pkg/fieldpath/fieldpath.go: FormatMap (v1.25).
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any

from sim.dataclass import dataclass
from sim.units import go_quote

Obj = Mapping[str, Any]
DEFAULT_MODE = 0o644  # of the API's defaults for a source without one


@dataclass(frozen=True, slots=True)
class Projected:
    """One file of a volume.  uid: its owner, of a token of a pod with one user; None: root"""

    data: bytes
    mode: int
    uid: int | None = None


Payload = dict[str, Projected]


@dataclass(frozen=True, slots=True)
class Reader:
    """What a volume is filled from.

    held: (resource, name) -> the object, None if there is none
    field: the value of a field of the pod
    resource: the value of a resource field, by its reference
    token: the token that a projection wants
    """

    held: Callable[[str, str], Obj | None]
    field: Callable[[str], str]
    resource: Callable[[Obj], str]
    token: Callable[[Obj], str]


class PayloadError(Exception):
    """A volume cannot be filled.  text: as upstream words it"""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


def config_map_payload(config_map: Obj, source: Obj, default_mode: int, *, optional: bool) -> Payload:
    """The files of a ConfigMap.  Raises PayloadError."""
    data = {key: text.encode() for key, text in (config_map.get("data") or {}).items()}
    data.update({key: b64decode(text) for key, text in (config_map.get("binaryData") or {}).items()})
    return _chosen(data, source, default_mode, optional, "configmap references non-existent config key: ")


def secret_payload(secret: Obj, source: Obj, default_mode: int, *, optional: bool) -> Payload:
    """The files of a Secret.  Raises PayloadError."""
    data = {key: b64decode(text) for key, text in (secret.get("data") or {}).items()}
    return _chosen(data, source, default_mode, optional, "references non-existent secret key: ")


def _chosen(
    data: Mapping[str, bytes], source: Obj, default_mode: int, optional: bool, problem: str
) -> Payload:
    items = source.get("items") or ()
    if not items:
        return {key: Projected(data[key], default_mode) for key in sorted(data)}
    found: Payload = {}
    for item in items:
        if item["key"] in data:
            found[item["path"]] = Projected(data[item["key"]], _mode(item, default_mode))
        elif not optional:
            raise PayloadError(problem + item["key"])
    return found


def _mode(item: Obj, default_mode: int) -> int:
    mode = item.get("mode")
    return default_mode if mode is None else int(mode)


def downward_payload(items: Any, pod: Obj, reader: Reader, default_mode: int) -> Payload:
    """The files with fields and resources of the pod."""
    found: Payload = {}
    for item in items or ():
        if "fieldRef" in item:
            path = item["fieldRef"]["fieldPath"]
            if path in ("metadata.labels", "metadata.annotations"):
                text = format_map(pod["metadata"].get(path.partition(".")[2]) or {})
            else:
                text = reader.field(path)
            text = "\n".join(sorted(text.split("\n")))
        else:
            text = reader.resource(item["resourceFieldRef"])
        found[item["path"]] = Projected(text.encode(), _mode(item, default_mode))
    return found


def format_map(values: Mapping[str, str]) -> str:
    """Labels or annotations as lines of key="value"."""
    return "\n".join(f"{key}={go_quote(values[key])}" for key in sorted(values))


def payload(volume: Obj, pod: Obj, reader: Reader) -> Payload | None:
    """The files of a volume of a pod; None if it is not made of objects.  Raises PayloadError."""
    for kind, resource, name_field in (
        ("configMap", "configmaps", "name"),
        ("secret", "secrets", "secretName"),
    ):
        if kind in volume:
            source = volume[kind]
            return _object_payload(
                resource, source.get(name_field, ""), source, _default_mode(source), reader
            )
    if "downwardAPI" in volume:
        source = volume["downwardAPI"]
        return downward_payload(source.get("items"), pod, reader, _default_mode(source))
    if "projected" in volume:
        return _projected_payload(volume["projected"], pod, reader)
    return None


def _default_mode(source: Obj) -> int:
    mode = source.get("defaultMode")
    return DEFAULT_MODE if mode is None else int(mode)


def _object_payload(resource: str, name: str, source: Obj, default_mode: int, reader: Reader) -> Payload:
    held, optional = reader.held(resource, name), bool(source.get("optional"))
    if held is None:
        if not optional:
            raise PayloadError(f'{resource[:-1]} "{name}" not found')
        held = {}
    make = config_map_payload if resource == "configmaps" else secret_payload
    return make(held, source, default_mode, optional=optional)


def _projected_payload(source: Obj, pod: Obj, reader: Reader) -> Payload:
    """All sources in one directory; a later file replaces an earlier one.

    Upstream tries all sources and reports all problems in one error.
    """
    default_mode, found, problems = _default_mode(source), Payload(), []
    security = pod["spec"].get("securityContext") or {}
    for part in source.get("sources") or ():
        try:
            if "secret" in part:
                one = part["secret"]
                found.update(_object_payload("secrets", one.get("name", ""), one, default_mode, reader))
            elif "configMap" in part:
                one = part["configMap"]
                found.update(_object_payload("configmaps", one.get("name", ""), one, default_mode, reader))
            elif "downwardAPI" in part:
                found.update(downward_payload(part["downwardAPI"].get("items"), pod, reader, default_mode))
            elif "serviceAccountToken" in part:
                one = part["serviceAccountToken"]
                uid = common_user(pod)
                mode = 0o600 if uid is not None or security.get("fsGroup") is not None else default_mode
                found[one["path"]] = Projected(reader.token(one).encode(), mode, uid)
        except PayloadError as error:
            problems.append(error.text)
    if problems:
        unique = list(dict.fromkeys(problems))
        raise PayloadError(unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]")
    return found


def common_user(pod: Obj) -> int | None:
    """The user of all containers, if all have the same; None otherwise.

    Mirrors  pkg/volume/util/util.go: FsUserFrom
    """
    spec, users = pod["spec"], []
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        user = (container.get("securityContext") or {}).get("runAsUser")
        if user is None:
            user = (spec.get("securityContext") or {}).get("runAsUser")
        users.append(user)
    return users[0] if users and all(user == users[0] for user in users) else None
