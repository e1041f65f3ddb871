"""What controllers have made of an object by the time that all is quiet: of a Deployment its ReplicaSet, of that its pods.

Turns a stored object into the bodies of what its controller would create, how often each, and as whom.

Holds: a body is the one that the loop itself sends.
Differs  StatefulSets with claims, and Jobs, have nothing yet: their loops make it once they run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from actors.controllers import (
    daemonset,
    daemonset_decide,
    deployment,
    revisions,
    statefulset,
    statefulset_decide,
)
from actors.controllers.pod_owners import pod_from_template
from actors.controllers.replicaset import REPLICA_SET, REPLICATION_CONTROLLER
from actors.controllers.shell import controller_ref
from sim.ident import Names
from sim.machinery.api import Obj
from sim.machinery.objects import replicas_of

FLAVOURS = {flavour.kind: flavour for flavour in (REPLICA_SET, REPLICATION_CONTROLLER)}
FIRST = 1  # the number of a revision without others


class Child(NamedTuple):
    """client: of the loop that makes it; times: how many of one body, which the server names."""

    client: str
    resource: str
    body: Obj
    times: int = 1


def children_of(obj: Obj, nodes: Sequence[Obj], names: Names) -> Sequence[Child]:
    """In the order in which they are made; nothing of what is of another kind."""
    kind = obj["kind"]
    if kind in FLAVOURS:
        pod = pod_from_template(obj["spec"]["template"], obj, _ref(obj))
        return [Child(FLAVOURS[kind].client, "pods", pod, replicas_of(obj))]
    if kind == "Deployment" and not obj["spec"].get("paused"):
        made = deployment.new_replica_set(obj, _ref(obj), FIRST, replicas_of(obj), names)
        return [Child(deployment.CLIENT, "replicasets", made)]
    if kind == "StatefulSet" and not obj["spec"].get("volumeClaimTemplates"):
        return _of_stateful_set(obj, names)
    return _of_daemon_set(obj, nodes, names) if kind == "DaemonSet" else ()


def _ref(obj: Obj) -> Obj:
    return controller_ref(obj["apiVersion"], obj["kind"], obj)


def _of_stateful_set(obj: Obj, names: Names) -> list[Child]:
    ref, template = _ref(obj), obj["spec"]["template"]
    revision = statefulset_decide.new_revision(obj, ref, FIRST, names, 0, 0)
    name = revision["metadata"]["name"]
    pods = [
        statefulset_decide.pod_of(obj, ref, template, name, ordinal, names)
        for ordinal in range(replicas_of(obj))
    ]
    return [
        Child(statefulset.CLIENT, revisions.RESOURCE, revision),
        *(Child(statefulset.CLIENT, "pods", pod) for pod in pods),
    ]


def _of_daemon_set(obj: Obj, nodes: Sequence[Obj], names: Names) -> list[Child]:
    ref = _ref(obj)
    revision = daemonset_decide.new_revision(obj, ref, FIRST, names)
    hashed = revision["metadata"]["labels"][names.label_controller_revision_hash]
    generation = daemonset_decide.template_generation(obj, names)
    template = daemonset_decide.daemon_template(obj, hashed, generation, names)
    fits = daemonset_decide.NodeFit(obj["spec"]["template"], names)
    pods = [
        daemonset_decide.daemon_pod(template, obj, ref, node["metadata"]["name"])
        for node in nodes
        if fits(node)[0]
    ]
    return [
        Child(daemonset.CLIENT, revisions.RESOURCE, revision),
        *(Child(daemonset.CLIENT, "pods", pod) for pod in pods),
    ]
