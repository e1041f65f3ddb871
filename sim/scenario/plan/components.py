"""The components of the control plane and the certificates of processes, from their settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from sim.errors import Problems
from sim.ident import NAMES, Names
from sim.options.base import raw_option
from sim.options.node.proxy import ProxyOptions
from sim.options.storage_drivers import driver_process
from sim.scenario.plan.context import ROLES, Compiler
from sim.scenario.plan.option_files import with_files
from sim.scenario.plan.plan import CertificatePlan, ClusterPlan, ComponentPlan
from sim.scenario.plan.storage import storage_objects
from sim.scenario.read.source import Document, Path_
from sim.scenario.schema.sections import ApiServer, Certificates, Cluster, Component, Daemon, KubeProxy
from sim.units import MINUTE, NANO, quantity_nano

SHORTEST_US = 1 * MINUTE  # a certificate counts in seconds, and is requested again before its end
PROCESSORS_MIN_NANO, PROCESSORS_MAX = NANO // 1_000, 1_024


def component_plan(
    document: Document,
    folder: Path,
    problems: Problems,
    part: Component | Daemon,
    names: Names,
    *keys: str | int,
) -> ComponentPlan:
    """A component of the cluster, as far as it has no errors, which go to the problems.

    keys: where it is in the cluster
    """
    path: Path_ = ("spec", "cluster", *keys)
    flags: Mapping[str, Any] = part.flags
    capacity_nano = 0
    with problems.part():
        capacity_nano = _processors(document, part, path)
    with problems.part():
        flags = with_files(document, folder, flags, (*path, "flags"), names)
    here: Path_ = (*path, "flags")
    places = {name: document.place((*here, name)) for name in part.flags}
    return ComponentPlan(part.replicas, flags, document.place(here), places, capacity_nano)


def more_schedulers(
    document: Document, folder: Path, problems: Problems, cluster: Cluster, taken: Collection[str]
) -> dict[str, ComponentPlan]:
    """The further schedulers of a cluster.  taken: names of nodes and other processes"""
    plans: dict[str, ComponentPlan] = {}
    for index, part in enumerate(cluster.schedulers):
        name, path = part.name, ("spec", "cluster", "schedulers", index)
        with problems.part():
            if name in plans:
                raise document.error((*path, "name"), f"two schedulers are named {name}")
            clash = next((one for one in taken if one == name or one.startswith(f"{name}-")), "")
            if clash:
                remedy = "give the scheduler another name"
                raise document.error(
                    path, f"processes are named {name}-0 and so on, and there is {clash}", remedy
                )
            if part.replicas > 1 and raw_option(part.flags, "leader-elect") in (None, False, "false"):
                what = f"{part.replicas} schedulers without a leader place the same pods"
                remedy = "give the flag leader-elect: true, and a role that allows the lease"
                raise document.error((*path, "replicas"), what, remedy)
        plans[name] = component_plan(
            document, folder, problems, part, NAMES[cluster.naming], "schedulers", index
        )
    return plans


def process_names(cluster: Cluster) -> set[str]:
    """The names of the processes of the control plane, but for those of further schedulers."""
    parts: Sequence[tuple[str, Component | Daemon]] = (
        ("apiserver", cluster.api_server),
        ("controller-manager", cluster.controller_manager),
        ("scheduler", cluster.scheduler),
    )
    replicas = {f"{process}-{number}" for process, part in parts for number in range(part.replicas)}
    return replicas | {driver_process(one.driver) for one in cluster.storage}


def own_programs(compiler: Compiler, cluster: Cluster, taken: Collection[str]) -> tuple[str, ...]:
    """The names of controllers of the user; errors in them are collected.

    taken: names of nodes and of processes of the control plane
    """
    names = cluster.own_programs
    further = [f"{part.name}-{number}" for part in cluster.schedulers for number in range(part.replicas)]
    for index, name in enumerate(names):
        path: Path_ = ("spec", "cluster", "ownPrograms", index)
        with compiler.part(path):
            if name in names[:index]:
                raise compiler.document.error(path, f"two programs are named {name}")
            if name in (*taken, *further, *ROLES, "admin", "nodes", "storage"):
                problem, remedy = f"{name} is the name of another process", "give the program another name"
                raise compiler.document.error(path, problem, remedy)
    return tuple(names)


def _processors(document: Document, part: Component | Daemon, path: Path_) -> int:
    """The processors of a component in thousand millionths; 0 if its work takes no time.

    Raises InputError.
    """
    if not isinstance(part, ApiServer) or part.capacity is None:
        return 0
    here, remedy = (*path, "capacity"), "write it as 2 or 500m"
    try:
        nano = quantity_nano(part.capacity)
    except ValueError:
        raise document.error(here, f"{part.capacity!r} is not a quantity", remedy) from None
    if not PROCESSORS_MIN_NANO <= nano <= PROCESSORS_MAX * NANO:
        raise document.error(here, f"a server has from 1m to {PROCESSORS_MAX} processors", remedy)
    return nano


def certificate_plan(compiler: Compiler, given: Certificates) -> CertificatePlan:
    """The plan, as far as it has no errors, which are collected."""
    return CertificatePlan(
        _lifetime_us(compiler, given.agents, "agents"),
        _lifetime_us(compiler, given.controller_managers, "controllerManagers"),
        _lifetime_us(compiler, given.schedulers, "schedulers"),
        _lifetime_us(compiler, given.api_servers, "apiServers"),
        given.pod_tokens,
    )


def _lifetime_us(compiler: Compiler, text: str, key: str) -> int:
    path, lifetime_us = ("spec", "cluster", "certificates", key), 0
    with compiler.part(path):
        lifetime_us = compiler.duration(text, path) if text else 0
        if text and lifetime_us < SHORTEST_US:
            raise compiler.document.error(path, f"{text} is too short", "at least 1m")
    return lifetime_us


def proxy_options(compiler: Compiler, entry: KubeProxy | None) -> ProxyOptions | None:
    """The options of the proxies, as far as they have no errors, which are collected."""
    if entry is None:
        return None
    times_us = [0, 0, 0]
    texts = {
        "minSyncPeriod": entry.min_sync_period,
        "syncTime": entry.sync_time,
        "endpointTime": entry.endpoint_time,
    }
    for index, (key, text) in enumerate(texts.items()):
        path: Path_ = ("spec", "cluster", "kubeProxy", key)
        with compiler.part(path):
            times_us[index] = compiler.duration(text, path)
    return ProxyOptions(*times_us)


def first_objects(plan: ClusterPlan, names: Names) -> Sequence[Mapping[str, Any]]:
    """The objects that exist from the start: those of storage drivers, and of certificates.

    Mirrors  cmd/kubeadm/app/phases/bootstraptoken/node/tlsbootstrap.go (v1.25).
    """
    objects = [*storage_objects(plan.storage, names)]
    if plan.certificates.agents_us:
        rbac, requests = (
            names.group("rbac"),
            f"system:{names.group('certificates')}:certificatesigningrequests",
        )
        agent = names.node_agent
        for name, role, group in (
            (f"{agent}-bootstrap", "system:node-bootstrapper", names.group_bootstrappers),
            ("node-autoapprove-bootstrap", f"{requests}:nodeclient", names.group_bootstrappers),
            ("node-autoapprove-certificate-rotation", f"{requests}:selfnodeclient", names.group_nodes),
        ):
            objects.append(
                {
                    "apiVersion": f"{rbac}/v1",
                    "kind": "ClusterRoleBinding",
                    "metadata": {"name": f"kubeadm:{name}"},
                    "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
                    "subjects": [{"apiGroup": rbac, "kind": "Group", "name": group}],
                }
            )
    return objects
