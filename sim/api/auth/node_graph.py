"""Which objects the pods on a node refer to, as a graph from objects to nodes.

An edge leads from an object to the object that refers to it, and in the end to a node:

    node <- pod <- secret, configmap, persistentvolumeclaim, serviceaccount
                   persistentvolumeclaim <- persistentvolume <- secret
    node <- volumeattachment

Pods are no nodes of this graph: for each object, the graph counts the references from pods of each
node. So a question is one look-up, and one more for each volume on the way.

Holds: what an object contributed is removed when it is replaced or removed; a mirror pod
       contributes nothing, since its node agent wrote it.

Mirrors  kubernetes v1.25 plugin/pkg/auth/authorizer/node/{graph,graph_populator}.go,
         pkg/api/v1/pod/util.go (VisitPodSecretNames, VisitPodConfigmapNames),
         pkg/api/v1/persistentvolume/util.go (VisitPVSecretNames).
Differs  a node without pods is unknown to upstream's graph; the answer is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sim.api.types import Obj
from sim.ident import Names

SECRET, CONFIG_MAP, ACCOUNT = "secrets", "configmaps", "serviceaccounts"
CLAIM, VOLUME, ATTACHMENT = "persistentvolumeclaims", "persistentvolumes", "volumeattachments"
POD = "pods"
# An object: resource, namespace ("" if it has none), name.
Vertex = tuple[str, str, str]

# Volume sources that refer to a secret by {secretRef: {name}}; in a PersistentVolume the reference
# has a namespace too.
_SECRET_REF = ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")
_IN_CLAIM_NAMESPACE = ("cephfs", "flexVolume", "rbd", "scaleIO", "iscsi")
_CSI_VISIBLE = ("nodePublishSecretRef", "nodeStageSecretRef")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


class NodeGraph:
    """The graph; its owner adds and removes objects as they change."""

    def __init__(self, names: Names) -> None:
        self._mirror = names.annotation_mirror_pod
        # Of each object: nodes with the number of references from there, and the objects that lead
        # further.
        self._nodes: dict[Vertex, dict[str, int]] = {}
        self._edges: dict[Vertex, dict[Vertex, int]] = {}
        self._given: dict[Vertex, list[tuple[Vertex, str | Vertex]]] = {}

    def reaches(self, vertex: Vertex, node: str) -> bool:
        """True if a path leads from an object to a node."""
        if node in self._nodes.get(vertex, ()):
            return True
        return any(self.reaches(after, node) for after in self._edges.get(vertex, ()))

    def put_pod(self, pod: Obj) -> None:
        """Add or replace a pod; one that is not bound to a node has no edges."""
        metadata, spec = pod["metadata"], pod.get("spec") or {}
        namespace, node = metadata.get("namespace", ""), spec.get("nodeName")
        owner = (POD, namespace, metadata["name"])
        self.remove(owner)
        if not node or self._mirror in (metadata.get("annotations") or {}):
            return
        for vertex in dict.fromkeys(_referenced(namespace, metadata["name"], spec)):
            self._give(owner, vertex, node)

    def put_volume(self, volume: Obj) -> None:
        """Add or replace a PersistentVolume; one without a claim has no edges."""
        owner = (VOLUME, "", volume["metadata"]["name"])
        self.remove(owner)
        spec = volume.get("spec") or {}
        claim = spec.get("claimRef")
        if claim is None:
            return
        self._give(owner, owner, (CLAIM, claim.get("namespace", ""), claim.get("name", "")))
        for namespace, name in dict.fromkeys(_volume_secrets(spec, claim.get("namespace", ""))):
            self._give(owner, (SECRET, namespace, name), owner)

    def put_attachment(self, attachment: Obj) -> None:
        """Add or replace a VolumeAttachment."""
        owner = (ATTACHMENT, "", attachment["metadata"]["name"])
        self.remove(owner)
        node = (attachment.get("spec") or {}).get("nodeName")
        if node:
            self._give(owner, owner, node)

    def remove(self, owner: Vertex) -> None:
        """Remove what an object contributed; it may have contributed nothing."""
        for vertex, end in self._given.pop(owner, ()):
            if isinstance(end, str):
                _drop(self._nodes, vertex, end)
            else:
                _drop(self._edges, vertex, end)

    def _give(self, owner: Vertex, vertex: Vertex, end: str | Vertex) -> None:
        self._given.setdefault(owner, []).append((vertex, end))
        table: dict[Vertex, dict[Any, int]] = self._nodes if isinstance(end, str) else self._edges
        ends = table.setdefault(vertex, {})
        ends[end] = ends.get(end, 0) + 1


def _drop(table: Mapping[Vertex, dict[Any, int]], vertex: Vertex, end: str | Vertex) -> None:
    ends = table[vertex]
    ends[end] -= 1
    if not ends[end]:
        del ends[end]
    if not ends:
        del table[vertex]  # type: ignore[attr-defined]


def _referenced(namespace: str, pod: str, spec: Obj) -> Iterator[Vertex]:
    """The objects that a pod refers to; some may come twice."""
    if spec.get("serviceAccountName"):
        yield ACCOUNT, namespace, spec["serviceAccountName"]
    for secret in spec.get("imagePullSecrets") or ():
        yield SECRET, namespace, secret.get("name", "")
    for kind in _CONTAINERS:
        for container in spec.get(kind) or ():
            yield from _of_container(namespace, container)
    for volume in spec.get("volumes") or ():
        yield from _of_volume(namespace, pod, volume)


def _of_container(namespace: str, container: Obj) -> Iterator[Vertex]:
    for source in container.get("envFrom") or ():
        yield from _named(SECRET, namespace, source.get("secretRef"))
        yield from _named(CONFIG_MAP, namespace, source.get("configMapRef"))
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        yield from _named(SECRET, namespace, source.get("secretKeyRef"))
        yield from _named(CONFIG_MAP, namespace, source.get("configMapKeyRef"))


def _of_volume(namespace: str, pod: str, volume: Obj) -> Iterator[Vertex]:
    claim = volume.get("persistentVolumeClaim")
    if claim is not None:
        yield CLAIM, namespace, claim.get("claimName", "")
    elif volume.get("ephemeral") is not None:
        yield CLAIM, namespace, f"{pod}-{volume['name']}"
    yield from _named(CONFIG_MAP, namespace, volume.get("configMap"))
    for field in ("secret", "azureFile"):
        yield from _named(SECRET, namespace, volume.get(field), "secretName")
    for field in _SECRET_REF:
        yield from _named(SECRET, namespace, (volume.get(field) or {}).get("secretRef"))
    yield from _named(SECRET, namespace, (volume.get("csi") or {}).get("nodePublishSecretRef"))
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield from _named(SECRET, namespace, source.get("secret"))
        yield from _named(CONFIG_MAP, namespace, source.get("configMap"))


def _named(resource: str, namespace: str, reference: Obj | None, field: str = "name") -> Iterator[Vertex]:
    if reference is not None and reference.get(field):
        yield resource, namespace, reference[field]


def _volume_secrets(spec: Obj, claimed_in: str) -> Iterator[tuple[str, str]]:
    """Namespaces and names of the secrets that a node needs to mount a PersistentVolume."""
    file = spec.get("azureFile")
    if file is not None:
        yield file.get("secretNamespace") or claimed_in, file.get("secretName", "")
    for field in _SECRET_REF:
        reference = (spec.get(field) or {}).get("secretRef")
        if reference is not None:
            fallback = claimed_in if field in _IN_CLAIM_NAMESPACE else ""
            yield reference.get("namespace") or fallback, reference.get("name", "")
    for field in _CSI_VISIBLE:
        reference = (spec.get("csi") or {}).get(field)
        if reference is not None:
            yield reference.get("namespace", ""), reference.get("name", "")
