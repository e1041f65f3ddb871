"""The cluster of a plan as `orrery serve` serves it."""

from __future__ import annotations

from dataclasses import replace

from sim.scenario.plan.context import Compiler
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.units import Wall, parse_time

ENABLED, DISABLED = "enable-admission-plugins", "disable-admission-plugins"
NODE_RESTRICTION = "NodeRestriction"


def epoch_of(compiler: Compiler, text: str) -> Wall | None:
    """The time of the wall clock at the start of a run, if it is given and right; errors are
    collected.
    """
    path = ("spec", "cluster", "epoch")
    result: Wall | None = None
    with compiler.part(path):
        try:
            result = Wall(parse_time(text)) if text else None
        except ValueError:
            remedy = "write it as 2026-11-28T16:00:00Z"
            raise compiler.document.error(path, f"{text!r} is no time", remedy) from None
    return result


def as_served(cluster: ClusterPlan) -> ClusterPlan:
    """The cluster with what a served one has besides."""
    return replace(cluster, served=True, api_server=as_kubeadm(cluster.api_server))


def as_kubeadm(server: ComponentPlan) -> ComponentPlan:
    """The API servers of a served cluster: with NodeRestriction, unless their options name plugins.

    Mirrors kubernetes v1.25 cmd/kubeadm/app/phases/controlplane/manifests.go
    (getAPIServerCommand): an option of the user replaces kubeadm's.
    """
    if ENABLED in server.flags or NODE_RESTRICTION in str(server.flags.get(DISABLED, "")):
        return server
    return replace(server, flags={**server.flags, ENABLED: NODE_RESTRICTION})
