"""Volume claims of a StatefulSet's pods: which exist, how a pod mounts them, their owners.  Pure.

Turns a set and an ordinal into claims and a pod's volumes; with the gate StatefulSetAutoDeletePVC,
a claim and its pod into the owner references by which the garbage collector deletes the claim.

Mirrors  kubernetes v1.25
         pkg/controller/statefulset/{stateful_set_utils.go,stateful_pod_control.go}.
Differs  volumes of claims come before the template's own, in the order of the claim templates
         (upstream: map order). A set without a policy retains its claims (upstream panics if the
         set was created while the gate was off).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sim.api.objects import replicas_of
from sim.api.types import Obj
from sim.dataclass import dataclass


def claims_of(owner: Obj, ordinal: int) -> list[tuple[str, Obj]]:
    """(volume name, claim) for each claim template, in their order."""
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
    """The pod with the volumes of the ordinal's claims before its other volumes."""
    if not owner["spec"].get("volumeClaimTemplates"):
        return pod
    spec = pod["spec"]
    return {**pod, "spec": {**spec, "volumes": _volumes(owner, ordinal, spec.get("volumes") or ())}}


def storage_matches(owner: Obj, pod: Obj, ordinal: int) -> bool:
    """True if the pod's volumes refer to the claims of the ordinal."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    return all(
        (volumes.get(volume, {}).get("persistentVolumeClaim") or {}).get("claimName")
        == claim["metadata"]["name"]
        for volume, claim in claims_of(owner, ordinal)
    )


# --- owners of claims -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Retention:
    """Owner references of claims by `persistentVolumeClaimRetentionPolicy`.

    set_ref, pod_ref: references to the set and to a pod, neither a controller's nor blocking
    lookup: returns the cached claim of a name, or None
    """

    owner: Obj
    set_ref: Obj
    pod_ref: Callable[[Obj], Obj]
    lookup: Callable[[str], Obj | None]

    def is_kept(self, pod: Obj, ordinal: int) -> bool:
        """True if the claims of a pod have the owner references that the policy asks for."""
        return not self.changed(pod, ordinal)

    def changed(self, pod: Obj, ordinal: int) -> list[Obj]:
        """The claims of a pod with wrong owner references, corrected.

        A claim that does not exist yet is left to a later sync.
        """
        by_set, by_pod = self._owners(ordinal)
        wanted = ((self.set_ref, by_set), (self.pod_ref(pod), by_pod))
        return [
            _with_owners(claim, wanted)
            for claim in self._claims(ordinal)
            if any(_is_owned(claim, ref) is not owns for ref, owns in wanted)
        ]

    def is_stale(self, pod: Obj, ordinal: int) -> bool:
        """True if a claim of a pod to be created still refers to an earlier pod of the same name."""
        name, uid = pod["metadata"]["name"], pod["metadata"].get("uid", "")
        return self._policy("whenScaled") == "Delete" and any(
            ref["name"] == name and ref.get("uid") != uid
            for claim in self._claims(ordinal)
            for ref in claim["metadata"].get("ownerReferences") or ()
        )

    def _claims(self, ordinal: int) -> list[Obj]:
        """The claims of an ordinal that exist."""
        found = (self.lookup(claim["metadata"]["name"]) for _, claim in claims_of(self.owner, ordinal))
        return [claim for claim in found if claim is not None]

    def _policy(self, when: str) -> str:
        return str((self.owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}).get(when, "Retain"))

    def _owners(self, ordinal: int) -> tuple[bool, bool]:
        """(True if the set owns the claims of an ordinal, True if the pod owns them).

        The pod owns them if its ordinal is beyond the replicas and the policy deletes on scaling.
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
