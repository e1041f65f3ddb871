"""NodeRestriction: a node agent changes its own node, lease, CSINode and pods only.

A request counts as a node's if its user has the prefix of node users and is in the group of nodes.
Each kind has its own rule; kinds without one are left to authorization.

Mirrors  kubernetes v1.25 plugin/pkg/admission/noderestriction/admission.go, k8s.io/kubelet
         pkg/apis/well_known_labels.go.
Differs  the refusal of a claim's status names no differences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sim.api.admission.base import (
    Attributes,
    Denial,
    Operation,
    View,
    forbidden,
    is_mirror,
    name_of,
    not_found,
)
from sim.api.auth.node_identity import node_of
from sim.api.schema.json_text import go_quote
from sim.api.types import Obj
from sim.ident import Names

KINDS = ("pods", "nodes", "persistentvolumeclaims", "serviceaccounts", "leases", "csinodes")
# What a node may change of the status of a claim: after an expansion of its file system.
CLAIM_FIELDS = ("capacity", "conditions")


def agent_may_set(label: str, names: Names) -> bool:
    """True if a node agent may label its node so: labels outside of the product's domains, and some
    inside.
    """
    prefix = label.partition("/")[0] if "/" in label else ""
    if not (_within(prefix, names.domain) or _within(prefix, names.group_domain)):
        return True
    allowed = (f"{names.node_agent}.{names.domain}", f"node.{names.domain}")
    return label in own_labels(names) or any(_within(prefix, domain) for domain in allowed)


def own_labels(names: Names) -> tuple[str, ...]:
    """The labels that describe a node, which its agent sets."""
    return (
        names.label_hostname, names.label_os, names.label_arch, names.label_zone, names.label_region,
        names.label_instance_type, names.label_beta_os, names.label_beta_arch, names.label_beta_instance_type,
        names.label_beta_zone, names.label_beta_region,
    )  # fmt: skip


def _within(prefix: str, domain: str) -> bool:
    return prefix == domain or prefix.endswith(f".{domain}")


class NodeRestriction:
    """Refuses requests of nodes about other nodes and their pods."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def concerns(self, operation: Operation, plural: str, subresource: str) -> bool:
        """True for requests of the kinds that have a rule."""
        return plural in KINDS

    def mutate(self, attributes: Attributes, obj: Obj, view: View) -> Obj | Denial:
        """The same object, or the refusal."""
        node = node_of(self._names, attributes.user)
        if node is None:
            return obj
        view.mark_volatile()
        if not node:
            problem: str | Denial = f"could not determine node from user {go_quote(attributes.user.name)}"
        else:
            problem = self._problem(node, attributes, obj, view)
        if isinstance(problem, Denial):
            return problem
        return forbidden(attributes, problem, name_of(attributes, obj)) if problem else obj

    def _problem(self, node: str, attributes: Attributes, obj: Obj, view: View) -> str | Denial:
        match attributes.resource.rule:
            case "pods":
                return self._pod(node, attributes, obj, view)
            case "nodes":
                return self._node(node, attributes, obj)
            case "persistentvolumeclaims":
                return _claim(node, attributes, obj)
            case "serviceaccounts":
                return _token(node, attributes, obj, view)
            case "csinodes":
                return _csi_node(node, attributes, obj)
            case _:
                return self._lease(node, attributes, obj)

    # --- pods -------------------------------------------------------------------------------------

    def _pod(self, node: str, attributes: Attributes, obj: Obj, view: View) -> str | Denial:
        operation = attributes.operation
        match attributes.subresource, operation:
            case "", "create":
                return self._created_pod(node, obj, view)
            case "", "delete":
                text = f'node "{node}" can only delete pods with spec.nodeName set to itself'
                return _bound_elsewhere(node, attributes, attributes.name, text, view)
            case "", _:
                return (
                    f'unexpected operation "{operation.upper()}", node "{node}" can only create and'
                    " delete mirror pods"
                )
            case "status", "update":
                return _pod_status(node, attributes.old or {}, obj)
            case "eviction", "create":
                name = attributes.name or (obj.get("metadata") or {}).get("name", "")
                if not name:
                    return "could not determine pod from request data"
                text = f"node {node} can only evict pods with spec.nodeName set to itself"
                return _bound_elsewhere(node, attributes, name, text, view)
            case subresource, _:
                return (
                    f"unexpected pod subresource \"{subresource}\", only 'status' and 'eviction' are allowed"
                )

    def _created_pod(self, node: str, pod: Obj, view: View) -> str | Denial:
        names, spec = self._names, pod.get("spec") or {}
        if not is_mirror(names, pod):
            return (
                f'pod does not have "{names.annotation_mirror_pod}" annotation, node "{node}" can only'
                " create mirror pods"
            )
        if spec.get("nodeName") != node:
            return f'node "{node}" can only create pods with spec.nodeName set to itself'
        owners = pod["metadata"].get("ownerReferences") or []
        if len(owners) > 1:
            return f'node "{node}" can only create pods with a single owner reference set to itself'
        if not owners or not _is_node(owners[0], node):
            return f'node "{node}" can only create pods with an owner reference set to itself'
        if owners[0].get("controller") is not True:
            return f'node "{node}" can only create pods with a controller owner reference set to itself'
        if owners[0].get("blockOwnerDeletion") is True:
            return f'node "{node}" must not set blockOwnerDeletion on an owner reference'
        stored = view.get("nodes", "", node)
        if stored is None:
            return not_found("nodes", node)
        uid, wanted = owners[0].get("uid", ""), stored["metadata"].get("uid", "")
        if uid != wanted:
            return f"node {node} UID mismatch: expected {uid} got {wanted}"
        for found, kind in (
            (spec.get("serviceAccountName"), "a service account"),
            (
                _mentions(spec, ("secretKeyRef", "secretRef", "secret", "imagePullSecrets", *SECRETS)),
                "secrets",
            ),
            (_mentions(spec, ("configMapKeyRef", "configMapRef", "configMap")), "configmaps"),
            (_mentions(spec, ("persistentVolumeClaim",)), "persistentvolumeclaims"),
        ):
            if found:
                return f'node "{node}" can not create pods that reference {kind}'
        return ""

    # --- nodes and leases -------------------------------------------------------------------------

    def _node(self, node: str, attributes: Attributes, obj: Obj) -> str:
        requested = name_of(attributes, obj) if attributes.operation == "create" else attributes.name
        if requested != node:
            return f'node "{node}" is not allowed to modify node "{requested}"'
        if attributes.operation == "delete":
            return ""
        old = attributes.old or {}
        spec, before = obj.get("spec") or {}, old.get("spec") or {}
        source = spec.get("configSource")
        labels = self._forbidden_labels(_labels(obj), _labels(old))
        if attributes.operation == "create":
            if source is not None:
                return f'node "{node}" is not allowed to create pods with a non-nil configSource'
            if labels:
                return f'node "{node}" is not allowed to set the following labels: {", ".join(labels)}'
            return ""
        if source is not None and source != before.get("configSource"):
            return f'node "{node}" is not allowed to update configSource to a new non-nil configSource'
        if (spec.get("taints") or []) != (before.get("taints") or []):
            return f'node "{node}" is not allowed to modify taints'
        return f"is not allowed to modify labels: {', '.join(labels)}" if labels else ""

    def _forbidden_labels(self, new: Obj, old: Obj) -> list[str]:
        """The changed labels that a node may not change, sorted."""
        changed = {key: None for key in (*new, *old) if new.get(key) != old.get(key)}
        restricted = self._names.label_node_restriction_prefix.removesuffix("/")
        return sorted(
            key
            for key in changed
            if _within(key.partition("/")[0] if "/" in key else "", restricted)
            or not agent_may_set(key, self._names)
        )

    def _lease(self, node: str, attributes: Attributes, obj: Obj) -> str:
        namespace = self._names.lease_namespace
        if attributes.namespace != namespace:
            return f'can only access leases in the "{namespace}" system namespace'
        same = _name_asked(attributes, obj) == node
        return "" if same else "can only access node lease with the same name as the requesting node"


def _csi_node(node: str, attributes: Attributes, obj: Obj) -> str:
    same = _name_asked(attributes, obj) == node
    return "" if same else "can only access CSINode with the same name as the requesting node"


def _name_asked(attributes: Attributes, obj: Obj) -> str:
    """The name of the object that a request is about; a create has it in the object alone."""
    if attributes.operation != "create":
        return attributes.name
    return str((obj.get("metadata") or {}).get("name", ""))


def _is_node(owner: Obj, node: str) -> bool:
    return (owner.get("apiVersion"), owner.get("kind"), owner.get("name")) == ("v1", "Node", node)


def _bound_elsewhere(node: str, attributes: Attributes, name: str, text: str, view: View) -> str | Denial:
    """The text if the pod is not bound to the node."""
    pod = view.get("pods", attributes.namespace, name)
    if pod is None:
        return not_found("pods", name)
    return text if (pod.get("spec") or {}).get("nodeName") != node else ""


def _pod_status(node: str, old: Obj, new: Obj) -> str:
    if (old.get("spec") or {}).get("nodeName") != node:
        return f'node "{node}" can only update pod status for pods with spec.nodeName set to itself'
    if _labels(old) != _labels(new):
        return f'node "{node}" cannot update labels through pod status'
    return ""


def _labels(obj: Obj) -> Obj:
    return (obj.get("metadata") or {}).get("labels") or {}


# Fields of volumes that name a Secret; "secretRef" is among them and the same in containers.
SECRETS = ("nodePublishSecretRef",)


def _mentions(spec: Obj, fields: Iterable[str]) -> bool:
    """True if one of the fields occurs in a pod's containers, volumes or image pull secrets."""
    wanted = tuple(fields)
    parts = ("imagePullSecrets", "initContainers", "containers", "ephemeralContainers", "volumes")
    held = {name: spec[name] for name in parts if spec.get(name)}
    return any(key in wanted and value for key, value in _members(held)) or (
        "secret" in wanted and any(_names_secret(volume) for volume in spec.get("volumes") or ())
    )


def _names_secret(volume: Obj) -> bool:
    """True for an Azure file share, which refers to its secret by a plain name."""
    return bool((volume.get("azureFile") or {}).get("secretName"))


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    """All fields at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from _members(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _members(inner)


def _claim(node: str, attributes: Attributes, obj: Obj) -> str:
    if attributes.subresource != "status":
        return "may only update PVC status"
    if attributes.operation != "update":
        return f'unexpected operation "{attributes.operation.upper()}"'
    if _rest_of_claim(obj) != _rest_of_claim(attributes.old or {}):
        return (
            f'node "{node}" is not allowed to update fields other than status.capacity and'
            " status.conditions: they differ"
        )
    return ""


def _rest_of_claim(claim: Obj) -> Obj:
    """A claim without what a node may change, and without its revision."""
    metadata, status = claim.get("metadata") or {}, claim.get("status") or {}
    kept = {k: v for k, v in metadata.items() if k not in ("resourceVersion", "managedFields")}
    return {**claim, "metadata": kept, "status": {k: v for k, v in status.items() if k not in CLAIM_FIELDS}}


def _token(node: str, attributes: Attributes, obj: Obj, view: View) -> str | Denial:
    if attributes.operation != "create" or attributes.subresource != "token":
        return ""
    bound = (obj.get("spec") or {}).get("boundObjectRef") or {}
    name, uid = bound.get("name"), bound.get("uid")
    if bound.get("apiVersion") != "v1" or bound.get("kind") != "Pod" or not name:
        return "node requested token not bound to a pod"
    if not uid:
        return "node requested token with a pod binding without a uid"
    pod = view.get("pods", attributes.namespace, name)
    if pod is None:
        return not_found("pods", name)
    if uid != pod["metadata"].get("uid"):
        return (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. The object"
            " might have been deleted and then recreated"
        )
    if (pod.get("spec") or {}).get("nodeName") != node:
        return "node requested token bound to a pod scheduled on a different node"
    return ""
