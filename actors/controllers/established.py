"""What controllers have created in an established cluster: the ReplicaSet of a Deployment, its
pods.

Turns a stored object into the objects that its controller would create, with their number and the
client that creates them.

Holds: each body is equal to the one that the controller itself sends.
Differs  StatefulSets with volume claim templates, and Jobs, get no children here: their
         controllers create them when the run starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from actors.controllers.daemonset import decide as daemonset_decide
from actors.controllers.daemonset import loop as daemonset
from actors.controllers.deployment import decide as deployment_decide
from actors.controllers.deployment import loop as deployment
from actors.controllers.replicaset import REPLICA_SET, REPLICATION_CONTROLLER
from actors.controllers.shared import revisions
from actors.controllers.shared.pod_owners import pod_from_template
from actors.controllers.shared.shell import controller_ref
from actors.controllers.statefulset import decide as statefulset_decide
from actors.controllers.statefulset import loop as statefulset
from sim.api.objects import replicas_of
from sim.api.types import Obj
from sim.ident import Names

FLAVOURS = {flavour.kind: flavour for flavour in (REPLICA_SET, REPLICATION_CONTROLLER)}
FIRST = 1  # revision number of an object's first revision


class Child(NamedTuple):
    """Objects that a controller creates for its owner.

    client: name of the controller's client
    times: how many objects of this body there are; the API server generates their names
    """

    client: str
    resource: str
    body: Obj
    times: int = 1


def children_of(obj: Obj, nodes: Sequence[Obj], names: Names) -> Sequence[Child]:
    """The children of an object in the order of creation; empty for kinds without children here."""
    kind = obj["kind"]
    if kind in FLAVOURS:
        pod = pod_from_template(obj["spec"]["template"], obj, _ref(obj))
        return [Child(FLAVOURS[kind].client, "pods", pod, replicas_of(obj))]
    if kind == "Deployment" and not obj["spec"].get("paused"):
        made = deployment_decide.new_replica_set(obj, _ref(obj), FIRST, replicas_of(obj), names)
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
