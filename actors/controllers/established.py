"""What controllers have made of an object by the time that all is quiet: of a Deployment its ReplicaSet, of that its pods.

Turns a stored object into the body of what its controller would create, how often, and as whom.

Holds: a body is the one that the loop itself sends (`deployment`, `replicaset`).
Differs  StatefulSets, DaemonSets and Jobs have nothing yet: their loops make it once they run.
"""

from __future__ import annotations

from typing import NamedTuple

from actors.controllers import deployment_decide
from actors.controllers.deployment import CLIENT, new_replica_set
from actors.controllers.pod_owners import pod_from_template
from actors.controllers.replicaset import REPLICA_SET, REPLICATION_CONTROLLER
from actors.controllers.shell import controller_ref
from sim.ident import Names
from sim.machinery.api import Obj

FLAVOURS = {flavour.kind: flavour for flavour in (REPLICA_SET, REPLICATION_CONTROLLER)}


class Children(NamedTuple):
    """client: of the loop that makes them; owner: its name; times: so often one body, which the server names."""

    client: str
    owner: str
    resource: str
    body: Obj
    times: int


def children_of(obj: Obj, names: Names) -> Children | None:
    """None: nothing is made of it, or not yet."""
    kind, spec = obj["kind"], obj["spec"]
    replicas = spec.get("replicas") or 0
    name = obj["metadata"]["name"]
    ref = controller_ref(obj["apiVersion"], kind, obj)
    flavour = FLAVOURS.get(kind)
    if flavour is not None:
        return Children(flavour.client, name, "pods", pod_from_template(spec["template"], obj, ref), replicas)
    if kind != "Deployment" or spec.get("paused"):
        return None
    made = new_replica_set(obj, ref, names.label_pod_template_hash)
    annotations = deployment_decide.wanted_annotations(obj, {}, 1, names)
    annotations |= deployment_decide.replicas_annotations(obj, names)
    body = {
        **made,
        "metadata": {**made["metadata"], "annotations": annotations},
        "spec": {**made["spec"], "replicas": replicas},
    }
    return Children(CLIENT, name, "replicasets", body, 1)
