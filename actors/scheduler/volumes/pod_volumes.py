"""The volumes of one pod during one scheduling attempt, and where its claims can be bound.

Turns the claims of a pod and a node into the volumes that the claims get there (static bindings)
and the claims for which a driver has to make a volume (provisions), or the reasons why it cannot.

Mirrors  kubernetes v1.25 pkg/scheduler/framework/plugins/volumebinding/binder.go: GetPodVolumes,
         FindPodVolumes, findMatchingVolumes, checkVolumeProvisions, hasEnoughCapacity;
         pkg/scheduler/framework/cycle_state.go (the state of one attempt);
         pkg/apis/core/v1/helper: MatchTopologySelectorTerms.
Differs  volumes of in-tree drivers are not translated to those of CSI drivers, so their node
         affinity is compared as it was written.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from actors.scheduler.cluster import Cluster, NodeInfo
from actors.scheduler.pods import PodInfo
from actors.scheduler.volumes.storage import Storage
from sim.api.kinds.common.volumes.binding import (
    capacity_bytes,
    claim_name,
    class_of,
    delays_binding,
    is_fully_bound,
    nearest_volume,
    reaches,
    requested_bytes,
    suitable_volumes,
)
from sim.api.objects import annotations_of, name_of
from sim.api.selectors import from_selector
from sim.api.types import Obj
from sim.units import quantity_value

NODE_CONFLICT = "node(s) had volume node affinity conflict"
NO_VOLUMES = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
NO_SUCH_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


class Choice(NamedTuple):
    """How the claims of a pod are bound if it goes to a node.

    static: pairs of a volume and the claim that gets it
    provisions: claims for which a volume is made for the node
    reasons: why the node cannot have the volumes; empty if it can
    """

    static: tuple[tuple[Obj, Obj], ...] = ()
    provisions: tuple[Obj, ...] = ()
    reasons: tuple[str, ...] = ()


class PodVolumes:
    """The volumes of a pod in one attempt.

    volumes: those that the scheduler reads, as the pod's spec has them
    bound, waiting: claims with a volume, and claims that get one with the choice of a node
    immediate: True if a claim that waits for no node has no volume yet
    """

    def __init__(self, cluster: Cluster, storage: Storage, pod: PodInfo) -> None:
        self.cluster, self.storage, self.info, self.pod = cluster, storage, pod, pod.obj
        self.volumes = pod.volumes
        self.bound: list[Obj] = []
        self.waiting: list[Obj] = []
        self.immediate = False
        self._suitable: list[tuple[Obj, list[Obj]]] = []
        self._choices: dict[str, Choice] = {}

    def claim_key(self, volume: Obj) -> str:
        """Return the key of the claim behind a volume; "" if it has none."""
        name = claim_name(self.pod, volume)
        return f"{self.pod['metadata']['namespace']}/{name}" if name else ""

    def is_used(self, key: str) -> bool:
        """Return True if a pod that has a node uses the claim."""
        return any(
            volume.get("persistentVolumeClaim") is not None
            and claim_name(pod.obj, volume) == key.partition("/")[2]
            for pod in self.cluster.pods.values()
            if pod.volumes and pod.template.namespace == self.info.template.namespace
            for volume in pod.volumes
        )

    def sort_claims(self) -> None:
        """Divide the claims, all of which exist, into those with a volume and those without."""
        storage = self.storage
        for volume in self.volumes:
            key = self.claim_key(volume)
            claim = storage.claim(key) if key else None
            if claim is None:
                continue
            if is_fully_bound(claim, storage.names):
                self.bound.append(claim)
            elif claim["spec"].get("volumeName") or not delays_binding(
                storage.storage_class(class_of(claim, storage.names))
            ):
                self.immediate = True
            else:
                self.waiting.append(claim)
        matched = [c for c in self.waiting if storage.names.annotation_selected_node not in annotations_of(c)]
        self._suitable = [
            (
                claim,
                suitable_volumes(
                    claim,
                    storage.volumes_of(class_of(claim, storage.names)),
                    storage.names,
                    by_modes=True,
                ),
            )
            for claim in sorted(matched, key=requested_bytes)
        ]

    def choice(self, node: NodeInfo) -> Choice:
        """Return how the claims are bound on the node."""
        found = self._choices.get(node.name)
        if found is None:
            found = self._choices[node.name] = self._choose(node)
        return found

    def _choose(self, node: NodeInfo) -> Choice:
        reasons: list[str] = []
        # Quirk: of several claims only the first that fails is reported, and with it nothing else.
        for claim in self.bound:
            volume = self.storage.volume(claim["spec"]["volumeName"])
            if volume is None:
                reasons.append(NO_SUCH_VOLUME)
                break
            if not reaches(volume, node.labels):
                reasons.append(NODE_CONFLICT)
                break
        static: list[tuple[Obj, Obj]] = []
        provisions: list[Obj] = []
        for claim in self.waiting:
            selected = annotations_of(claim).get(self.storage.names.annotation_selected_node)
            if selected is None:
                continue
            if selected != node.name:
                return Choice(reasons=_ordered([*reasons, NO_VOLUMES]))
            provisions.append(claim)
        chosen: dict[str, None] = {}
        for claim, suitable in self._suitable:
            volume = nearest_volume(claim, suitable, labels=node.labels, chosen=chosen)
            if volume is None:
                provisions.append(claim)
            else:
                chosen[name_of(volume)] = None
                static.append((volume, claim))
        refusal = self._not_provisioned(provisions, node)
        if refusal:
            reasons.append(refusal)
        return Choice(tuple(static), tuple(provisions), _ordered(reasons))

    def _not_provisioned(self, claims: list[Obj], node: NodeInfo) -> str:
        """Return why the volume of a claim cannot be made on the node; "" if all can."""
        storage = self.storage
        for claim in claims:
            storage_class = storage.storage_class(class_of(claim, storage.names))
            assert storage_class is not None  # its binding mode was read from it
            provisioner = storage_class.get("provisioner") or ""
            if not provisioner or provisioner == storage.names.provisioner_none:
                return NO_VOLUMES
            if not _is_allowed(storage_class, node):
                return NO_VOLUMES
            if not self._has_space(provisioner, claim, storage_class, node):
                return NO_SPACE
        return ""

    def _has_space(self, provisioner: str, claim: Obj, storage_class: Obj, node: NodeInfo) -> bool:
        driver = self.storage.csi_driver(provisioner)
        if driver is None or not driver["spec"].get("storageCapacity"):
            return True
        size, class_name = requested_bytes(claim), name_of(storage_class)
        return any(
            capacity.get("storageClassName") == class_name
            and _suffices(capacity, size)
            and capacity.get("nodeTopology") is not None
            and from_selector(capacity["nodeTopology"]).matches(node.labels)
            for capacity in self.storage.capacities()
        )

    def used_capacity(self, node: NodeInfo) -> list[tuple[int, int]]:
        """Return for each class the bytes requested from, and the size of, the volumes chosen."""
        sums: dict[str, tuple[int, int]] = {}
        for volume, claim in self.choice(node).static:
            name = class_of(volume, self.storage.names)
            requested, capacity = sums.get(name, (0, 0))
            sums[name] = requested + requested_bytes(claim), capacity + capacity_bytes(volume)
        return list(sums.values())


_ORDER = (NODE_CONFLICT, NO_VOLUMES, NO_SPACE, NO_SUCH_VOLUME)


def _ordered(reasons: list[str]) -> tuple[str, ...]:
    return tuple([reason for reason in _ORDER if reason in reasons])


def _suffices(capacity: Obj, size: int) -> bool:
    limit = capacity.get("maximumVolumeSize") or capacity.get("capacity")
    return limit is not None and quantity_value(limit) >= size


def _is_allowed(storage_class: Obj, node: NodeInfo) -> bool:
    """Return True if the class allows volumes in the node's topology; no terms allow all."""
    terms: list[Any] = storage_class.get("allowedTopologies") or []
    labels = node.labels
    return not terms or any(
        all(
            e["key"] in labels and labels[e["key"]] in e["values"]
            for e in term.get("matchLabelExpressions") or ()
        )
        for term in terms
        if term.get("matchLabelExpressions")
    )
