"""What a server and its controllers put into objects, and the objects that they make themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sim.api.auth.bootstrap_policy.policy import controllers
from sim.app.imports.parts import Value
from sim.ident import Names

_MADE_KINDS = (
    "Event", "Endpoints", "EndpointSlice", "Lease", "ControllerRevision", "ComponentStatus", "PodMetrics",
    "NodeMetrics", "FlowSchema", "PriorityLevelConfiguration", "APIService", "CSINode", "Node",
)  # fmt: skip
_CONTROLLERS = (
    "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicationController",
)  # fmt: skip
_KEPT_METADATA = ("name", "namespace", "labels", "annotations", "finalizers")
_ALLOCATED = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort")
_REFERENCE = ("apiVersion", "kind", "namespace", "name")
_AGAIN = "left out, because the control plane makes them itself"


def left_out(obj: Value, names: Names, is_there: Callable[[str, str, str], bool] | None = None) -> str:
    """The reason why an object is not imported; empty if it is.

    is_there: True for kind, namespace and name of an object that is imported too; an object with
        another controller is imported by itself.  Default: the controllers of all objects are there
    """
    metadata = obj.get("metadata") or {}
    labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    if (owner := controller_of(obj)) is not None and (
        is_there is None or _is_made_again(obj, owner, is_there)
    ):
        return "left out, because their owners make them again"
    if obj["kind"] in _MADE_KINDS or names.annotation_mirror_pod in annotations:
        return _AGAIN
    if names.label_bootstrapping in labels:
        return _AGAIN
    if _is_built_in(obj, names):
        return _AGAIN
    if metadata.get("deletionTimestamp"):
        return "left out, because they were being deleted"
    return "left out, because they have ended" if _has_ended(obj) else ""


def controller_of(obj: Value) -> Value | None:
    """The reference to the controller of an object."""
    owners = (obj.get("metadata") or {}).get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller")), None)


def owner_above(kind: str, name: str) -> tuple[str, str]:
    """Kind and name of the object that makes objects of this kind under names of this form."""
    above = {"ReplicaSet": "Deployment", "Job": "CronJob"}.get(kind, "")
    return above, name.rpartition("-")[0]


def _is_made_again(obj: Value, owner: Value, is_there: Callable[[str, str, str], bool]) -> bool:
    kind, name, space = owner.get("kind", ""), owner.get("name", ""), obj["metadata"].get("namespace", "")
    above, above_name = owner_above(kind, name)
    if kind not in _CONTROLLERS:
        return False
    return is_there(kind, space, name) or (above != "" and is_there(above, space, above_name))


def _is_built_in(obj: Value, names: Names) -> bool:
    kind, metadata = obj["kind"], obj.get("metadata") or {}
    name, namespace = str(metadata.get("name", "")), metadata.get("namespace")
    if kind == "Namespace":
        return name == names.default_namespace or name.startswith(f"{names.short}-")
    if kind == "ServiceAccount":
        controller = namespace == f"{names.short}-system" and name in controllers()
        return name == names.default_service_account or controller
    if kind == "Secret":
        return bool(obj.get("type") == names.secret_type_service_account)
    if kind == "ConfigMap":
        return name in (names.config_map_root_ca, "extension-apiserver-authentication")
    if kind == "PriorityClass":
        return name in (names.priority_class_node_critical, names.priority_class_cluster_critical)
    if kind.endswith(("Role", "RoleBinding")):
        return name.startswith("system:")
    return kind == "Service" and name == names.product and namespace == names.default_namespace


def _has_ended(obj: Value) -> bool:
    status = obj.get("status") or {}
    if obj["kind"] == "Pod":
        return status.get("phase") in ("Succeeded", "Failed")
    conditions = status.get("conditions") or ()
    return obj["kind"] == "Job" and any(
        each.get("type") in ("Complete", "Failed") and each.get("status") == "True" for each in conditions
    )


def without_made(obj: Value, names: Names) -> Value:
    """A copy of an object without what servers and controllers set."""
    given = obj.get("metadata") or {}
    metadata = {key: given[key] for key in _KEPT_METADATA if given.get(key)}
    if metadata.get("namespace") == names.default_namespace:
        del metadata["namespace"]
    if "annotations" in metadata:
        metadata["annotations"] = _own_annotations(metadata["annotations"], names)
    if "finalizers" in metadata:
        metadata["finalizers"] = [each for each in metadata["finalizers"] if not _is_made(each, names)]
    if "labels" in metadata:
        metadata["labels"] = {k: v for k, v in metadata["labels"].items() if k != names.label_metadata_name}
    metadata = {key: value for key, value in metadata.items() if value}
    rest = {k: v for k, v in obj.items() if k not in ("apiVersion", "kind", "metadata", "status")}
    bare: Value = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, **rest}
    if obj["kind"] == "Namespace":
        bare.pop("spec", None)
    if isinstance(bare.get("spec"), dict):
        bare["spec"] = _spec(obj["kind"], bare["spec"], names)
    if obj["kind"] == "ServiceAccount":
        bare.pop("secrets", None)
    return bare


def _own_annotations(given: dict[str, str], names: Names) -> dict[str, str]:
    made = (
        names.annotation_last_applied, names.annotation_revision, names.annotation_revision_history,
        names.annotation_desired_replicas, names.annotation_max_replicas, names.annotation_template_generation,
        names.annotation_job_tracking, names.annotation_last_change_trigger_time, names.annotation_rbac_autoupdate,
    )  # fmt: skip
    prefixes = (
        f"pv.{names.domain}/", f"volume.{names.domain}/", f"volume.beta.{names.domain}/storage-provisioner",
        names.annotation_autoscaling_prefix,
    )  # fmt: skip
    return {
        key: value
        for key, value in given.items()
        # the driver that made a volume deletes it
        if key == names.annotation_provisioned_by or (key not in made and not key.startswith(prefixes))
    }


def _is_made(finalizer: str, names: Names) -> bool:
    domain = finalizer.partition("/")[0]
    made = (names.finalizer_foreground, names.finalizer_orphan)
    return finalizer in made or domain.endswith(names.domain) or domain == "external-attacher"


def _spec(kind: str, spec: Value, names: Names) -> Value:
    """The spec without what is allocated, bound or injected after the create."""
    if kind == "Service":
        headless = spec.get("clusterIP") == "None"
        spec = {key: value for key, value in spec.items() if key not in _ALLOCATED}
        if headless:
            spec["clusterIP"] = "None"
        ports = [{k: v for k, v in port.items() if k != "nodePort"} for port in spec.get("ports") or ()]
        return {**spec, "ports": ports} if ports else spec
    if kind == "Pod":
        return _pod(spec, names)
    if kind == "Job" and not spec.get("manualSelector"):
        return _job({key: value for key, value in spec.items() if key != "selector"})
    if kind == "PersistentVolume" and spec.get("claimRef"):
        # Without the uid the volume is kept for a claim of this name, which gets another one here.
        of_claim = {key: spec["claimRef"][key] for key in _REFERENCE if spec["claimRef"].get(key)}
        return {**spec, "claimRef": of_claim}
    return {key: value for key, value in spec.items() if (kind, key) != ("Namespace", "finalizers")}


def _job(spec: Value) -> Value:
    """The spec of a job without the labels that its controller generates."""
    template = dict(spec.get("template") or {})
    metadata = dict(template.get("metadata") or {})
    labels = metadata.get("labels") or {}
    metadata["labels"] = {
        key: value
        for key, value in labels.items()
        if key.rpartition("/")[2] not in ("controller-uid", "job-name")
    }
    return {**spec, "template": {**template, "metadata": metadata}}


def _pod(spec: Value, names: Names) -> Value:
    """The spec of a pod without what admission added."""
    injected = (names.taint_not_ready, names.taint_unreachable)

    def added(volume: dict[str, Any]) -> bool:
        return str(volume.get("name", "")).startswith(names.volume_api_access_prefix)

    kept = {k: v for k, v in spec.items() if k not in ("priority", "preemptionPolicy", "serviceAccount")}
    if kept.get("serviceAccountName") == names.default_service_account:
        del kept["serviceAccountName"]
    kept["tolerations"] = [
        each
        for each in spec.get("tolerations") or ()
        if not (each.get("key") in injected and each.get("tolerationSeconds") == 300)
    ]
    kept["volumes"] = [volume for volume in spec.get("volumes") or () if not added(volume)]
    for part in ("containers", "initContainers"):
        kept[part] = [
            {**each, "volumeMounts": [mount for mount in each.get("volumeMounts") or () if not added(mount)]}
            for each in spec.get(part) or ()
        ]
    for part in ("containers", "initContainers"):
        kept[part] = [{k: v for k, v in each.items() if v != []} for each in kept[part]]
    return {key: value for key, value in kept.items() if value != []}
