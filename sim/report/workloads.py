"""How the picture of a run shows a pod: under its workload, and by the reason while it is pending.

Turns a pod into the name of its workload ("deployment shop/web") and into one of the states of
`sim.report.palette.STATES`.
"""

from __future__ import annotations

from sim.api.store import Item
from sim.api.types import Obj
from sim.patterns import pattern

UNSCHEDULED, NO_NODE, UNSEEN, STARTING, NO_IMAGE, FAILING = WHY_PENDING = (
    "pending: not scheduled yet",
    "pending: no node fits",
    "pending: waits for its node",
    "pending: starting",
    "pending: image not pulled",
    "pending: container fails",
)
# What a waiting container of a pod says while nothing is wrong.
ORDINARY = ("ContainerCreating", "PodInitializing", "")
IMAGE = pattern("Image|Registry")
HASH = "pod-template-hash"
NOTHING: Obj = {}
OF_CRON_JOB = pattern(r"-\d{8,}$")  # the minutes since 1970 in the name of a CronJob's Job


def pod_state(item: Item) -> str:
    """The state by which every display counts a pod: its phase, or "terminating" after it is marked
    for deletion.

    So a running pod has the phase Running and no deletion timestamp, as in the STATUS column of
    kubectl.
    """
    if item.peek("metadata", "deletionTimestamp") is not None:
        return "terminating"
    return str(item.peek("status", "phase") or "Pending").lower()


def shown_state(pod: Obj) -> str:
    """As `pod_state`, of a pending pod with the reason."""
    if "deletionTimestamp" in pod["metadata"]:
        return "terminating"
    status = pod.get("status") or NOTHING
    phase = status.get("phase") or "Pending"
    return why_pending(pod, status) if phase == "Pending" else str(phase).lower()


def why_pending(pod: Obj, status: Obj) -> str:
    """Why a pod is pending, one of WHY_PENDING.

    Without a node it is NO_NODE after the scheduler has found none, else UNSCHEDULED. With a node
    it is UNSEEN until its agent has reported it. Then the reasons of its waiting containers count:
    NO_IMAGE if one concerns images, FAILING if it is not ordinary. Else it is STARTING, which
    includes volumes, the sandbox and a pull under way.
    """
    if not (pod.get("spec") or NOTHING).get("nodeName"):
        for one in status.get("conditions") or ():
            if one["type"] == "PodScheduled":
                refused = one["status"] == "False" and one.get("reason") == "Unschedulable"
                return NO_NODE if refused else UNSCHEDULED
        return UNSCHEDULED
    if "startTime" not in status:
        return UNSEEN
    for of in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(of) or ():
            waiting = (container.get("state") or NOTHING).get("waiting")
            if waiting is not None and (reason := waiting.get("reason") or "") not in ORDINARY:
                return NO_IMAGE if IMAGE.search(reason) else FAILING
    return STARTING


def workload_of(item: Item) -> str:
    """The workload of a pod: its kind, namespace and name.

    A ReplicaSet that a Deployment has made counts as the Deployment. The name of that is the
    ReplicaSet's without the template hash. The Jobs of a CronJob are one workload, "job
    NAMESPACE/NAME-…". So are the pods of a namespace without a controller, and all static pods.
    """
    namespace = item.key.split("/", 4)[3]
    for owner in item.peek("metadata", "ownerReferences") or ():
        if owner.get("controller"):
            break
    else:
        return f"pods of {namespace} without a controller"
    kind, name = owner["kind"], owner["name"]
    if kind == "Node":
        return "static pods"
    if kind == "ReplicaSet":
        template = (item.peek("metadata", "labels") or {}).get(HASH)
        if template and name.endswith(f"-{template}"):
            kind, name = "Deployment", name.removesuffix(f"-{template}")
    elif kind == "Job":
        name = OF_CRON_JOB.sub("-…", name)
    return f"{kind.lower()} {namespace}/{name}"
