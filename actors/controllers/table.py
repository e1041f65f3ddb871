"""The controllers of the controller manager, by upstream's name in `--controllers`.

Mirrors  kubernetes v1.25 cmd/kube-controller-manager/app/controllermanager.go
         (NewControllerInitializers).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from actors.controllers import (
    cloud_node_lifecycle,
    clusterrole_aggregation,
    disruption,
    endpoint,
    ephemeral_volume,
    persistentvolume_expander,
    podgc,
    replicaset,
    replicationcontroller,
    resourcequota,
    root_ca_cert_publisher,
    route,
    serviceaccount,
    storage_version_gc,
    ttl,
    ttlafterfinished,
)
from actors.controllers.attachdetach import loop as attachdetach
from actors.controllers.bootstrap import bootstrapsigner, tokencleaner
from actors.controllers.certificates import loop as certificates
from actors.controllers.cronjob import loop as cronjob
from actors.controllers.daemonset import loop as daemonset
from actors.controllers.deployment import loop as deployment
from actors.controllers.endpointslice import loop as endpointslice
from actors.controllers.endpointslicemirroring import loop as endpointslicemirroring
from actors.controllers.garbagecollector import loop as garbagecollector
from actors.controllers.horizontalpodautoscaler import loop as horizontalpodautoscaler
from actors.controllers.job import loop as job
from actors.controllers.namespace import loop as namespace
from actors.controllers.nodeipam import loop as nodeipam
from actors.controllers.nodelifecycle import loop as nodelifecycle
from actors.controllers.persistentvolume_binder import loop as persistentvolume_binder
from actors.controllers.service import loop as service
from actors.controllers.serviceaccount_tokens import loop as serviceaccount_tokens
from actors.controllers.shared.shell import Env
from actors.controllers.statefulset import loop as statefulset
from actors.controllers.volume_protection import claims as pvc_protection
from actors.controllers.volume_protection import volumes as pv_protection

Start = Callable[[Env], Awaitable[None]]

LOOPS: Mapping[str, Start] = MappingProxyType(
    {
        "attachdetach": attachdetach.start,
        "bootstrapsigner": bootstrapsigner.start,
        cloud_node_lifecycle.NAME: cloud_node_lifecycle.start,
        clusterrole_aggregation.NAME: clusterrole_aggregation.start,
        "cronjob": cronjob.start,
        "csrapproving": certificates.start_approving,
        "csrcleaner": certificates.start_cleaning,
        "csrsigning": certificates.start_signing,
        "daemonset": daemonset.start,
        "deployment": deployment.start,
        "disruption": disruption.start,
        "endpoint": endpoint.start,
        "endpointslice": endpointslice.start,
        "endpointslicemirroring": endpointslicemirroring.start,
        "ephemeral-volume": ephemeral_volume.start,
        "garbagecollector": garbagecollector.start,
        "horizontalpodautoscaling": horizontalpodautoscaler.start,
        "job": job.start,
        "namespace": namespace.start,
        "nodeipam": nodeipam.start,
        "nodelifecycle": nodelifecycle.start,
        "persistentvolume-binder": persistentvolume_binder.start,
        "persistentvolume-expander": persistentvolume_expander.start,
        "podgc": podgc.start,
        "pv-protection": pv_protection.start,
        "pvc-protection": pvc_protection.start,
        "replicaset": replicaset.start,
        "replicationcontroller": replicationcontroller.start,
        "resourcequota": resourcequota.start,
        "root-ca-cert-publisher": root_ca_cert_publisher.start,
        route.NAME: route.start,
        service.NAME: service.start,
        "serviceaccount": serviceaccount.start,
        "serviceaccount-token": serviceaccount_tokens.start,
        "statefulset": statefulset.start,
        storage_version_gc.NAME: storage_version_gc.start,
        "tokencleaner": tokencleaner.start,
        "ttl": ttl.start,
        "ttl-after-finished": ttlafterfinished.start,
    }
)
