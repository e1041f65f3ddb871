"""The controllers within a server, as their work queues upstream would count them.

Turns keys that are synced at the instant at which they arrive into counts of work queues.

Holds: each key is one addition with a wait and work of 0 seconds, since it is synced at once.

Mirrors  kubernetes v1.25 component-base metrics/prometheus/workqueue/metrics.go; the queues of
         apiextensions-apiserver pkg/controller and of kube-aggregator pkg/controllers.
Differs  these controllers have no queues: the numbers are of their keys.
"""

from __future__ import annotations

from sim.kernel import Kernel
from sim.kernel.measure import count

NAMING = "crd_naming_condition_controller"
APPROVAL = "kubernetes_api_approval_conformant_condition_controller"
ESTABLISHING, FINALIZING = "crdEstablishing", "crd_finalizer"
DISCOVERY, OPENAPI, OPENAPI_V3 = "DiscoveryController", "crd_openapi_controller", "crd_openapi_v3_controller"
AVAILABILITY = "AvailableConditionController"


def count_syncs(kernel: Kernel, server: str, *queues: str) -> None:
    """Count one key of each queue.  server: the name of the replica"""
    meters = kernel.meters
    if meters is None:
        return
    for queue in queues:
        labels = server, queue
        meters.count("workqueue_adds_total", labels)
        meters.count("workqueue_depth", labels, 0)
        for family in ("queue_duration_seconds", "work_duration_seconds"):
            meters.observe(f"workqueue_{family}", labels, 0.0)
        for family in ("unfinished_work_seconds", "longest_running_processor_seconds"):
            meters.count(f"workqueue_{family}", labels, 0)


def count_retry(kernel: Kernel, server: str, queue: str) -> None:
    """Count a key that is synced again after a failure."""
    count(kernel, "workqueue_retries_total", server, queue)
