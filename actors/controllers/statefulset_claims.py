"""The claims of a StatefulSet's pods: which there are, how a pod mounts them, and whose they are.
Pure.

Turns a set and an ordinal into claims and a pod's volumes; with the gate StatefulSetAutoDeletePVC,
a claim and its pod into the owners by which the garbage collector takes the claim in time.

Mirrors  kubernetes v1.25
         pkg/controller/statefulset/{stateful_set_utils.go,stateful_pod_control.go}.
Differs  volumes of claims stand before the template's own, in the order of the claim templates
         (upstream: in map order).  A set without a policy retains its claims (upstream: panics if
         it was made while the gate was off).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sim.machinery.api import Obj
from sim.machinery.objects import replicas_of


def claims_of(owner: Obj, ordinal: int) -> list[tuple[str, Obj]]:
    """(volume name, claim) per claim template, in the templates' order."""
    claims = []
    matched = owner["spec"]["selector"].get("matchLabels") or {}
    for template in owner["spec"].get("volumeClaimTemplates") or ():
        meta = template["metadata"]
        made = {k: v for k, v in meta.items() if k != "creationTimestamp"}
        made["name"] = f"{meta['name']}-{owner['metadata']['name']}-{ordinal}"
        made["namespace"] = owner["metadata"]["namespace"]
        made["labels"] = {**(meta.get("labels") or {}), **matched}
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": made,
            "spec": template["spec"],
        }
        claims.append((meta["name"], claim))
    return claims


def _volumes(owner: Obj, ordinal: int, volumes: Sequence[Obj]) -> list[Obj]:
    bound = [
        {"name": volume, "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
        for volume, claim in claims_of(owner, ordinal)
    ]
    taken = {volume["name"] for volume in bound}  # membership only
    return bound + [volume for volume in volumes if volume["name"] not in taken]


def with_storage(owner: Obj, pod: Obj, ordinal: int) -> Obj:
    """Volumes of the ordinal's claims, before those that the pod has besides."""
    if not owner["spec"].get("volumeClaimTemplates"):
        return pod
    spec = pod["spec"]
    return {**pod, "spec": {**spec, "volumes": _volumes(owner, ordinal, spec.get("volumes") or ())}}


def storage_matches(owner: Obj, pod: Obj, ordinal: int) -> bool:
    """Whether the pod's volumes cover the claims of the ordinal."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    return all(
        (volumes.get(volume, {}).get("persistentVolumeClaim") or {}).get("claimName")
        == claim["metadata"]["name"]
        for volume, claim in claims_of(owner, ordinal)
    )


# --- whose they are -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Retention:
    """What becomes of claims by `persistentVolumeClaimRetentionPolicy`.

    set_ref, pod_ref: owner references of the set and of a pod, neither a controller's nor one that
    blocks
    lookup: the claim of a name as the cache has it now, None if it has none
    """

    owner: Obj
    set_ref: Obj
    pod_ref: Callable[[Obj], Obj]
    lookup: Callable[[str], Obj | None]

    def is_kept(self, pod: Obj, ordinal: int) -> bool:
        """Whether the claims of a pod have the owners that they should."""
        return not self.changed(pod, ordinal)

    def changed(self, pod: Obj, ordinal: int) -> list[Obj]:
        """The claims of a pod that have not, with them.

        One that is not there is looked after by a later sync.
        """
        by_set, by_pod = self._owners(ordinal)
        wanted = ((self.set_ref, by_set), (self.pod_ref(pod), by_pod))
        return [
            _with_owners(claim, wanted)
            for claim in self._claims(ordinal)
            if any(_is_owned(claim, ref) is not owns for ref, owns in wanted)
        ]

    def is_stale(self, pod: Obj, ordinal: int) -> bool:
        """Whether a claim of a pod to be made goes yet with an older pod of its name."""
        name, uid = pod["metadata"]["name"], pod["metadata"].get("uid", "")
        return self._policy("whenScaled") == "Delete" and any(
            ref["name"] == name and ref.get("uid") != uid
            for claim in self._claims(ordinal)
            for ref in claim["metadata"].get("ownerReferences") or ()
        )

    def _claims(self, ordinal: int) -> list[Obj]:
        """Those of an ordinal that are there."""
        found = (self.lookup(claim["metadata"]["name"]) for _, claim in claims_of(self.owner, ordinal))
        return [claim for claim in found if claim is not None]

    def _policy(self, when: str) -> str:
        return str((self.owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}).get(when, "Retain"))

    def _owners(self, ordinal: int) -> tuple[bool, bool]:
        """Whether the set and whether the pod owns the claims of an ordinal: the pod where it is
        one too many.
        """
        surplus = ordinal >= replicas_of(self.owner)
        by_pod = surplus and self._policy("whenScaled") == "Delete"
        return self._policy("whenDeleted") == "Delete" and not by_pod, by_pod


def _is_owned(claim: Obj, ref: Obj) -> bool:
    return any(known.get("uid") == ref["uid"] for known in claim["metadata"].get("ownerReferences") or ())


def _with_owners(claim: Obj, wanted: Sequence[tuple[Obj, bool]]) -> Obj:
    refs = list(claim["metadata"].get("ownerReferences") or ())
    for ref, owns in wanted:
        if not owns:
            refs = [known for known in refs if known.get("uid") != ref["uid"]]
        elif not _is_owned(claim, ref):
            refs.append(ref)
    return {**claim, "metadata": {**claim["metadata"], "ownerReferences": refs}}
