"""upgrade: a person replaces the program of node agents or API servers by one of another version.

Mirrors  kubernetes.io/releases/version-skew-policy (v1.25): an agent is not newer than any API
         server and at most two minor versions older; API servers are at most one minor version
         apart; kubeadm cmd/kubeadm/app/phases/upgrade/policy.go refuses what breaks that.
Differs  a program of another version behaves as one of v1.25; only the version that it reports, in
         the status of its Node and at /version, is another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar

from msgspec import UNSET, Meta, UnsetType

from sim.dataclass import dataclass
from sim.faults.shared.kinds import Action, Stage, StepKind
from sim.faults.shared.parameters import Nodes, OneOrMore, Strict
from sim.ident import RELEASE
from sim.kernel.actor import Actor
from sim.patterns import pattern
from sim.scenario.actions.context import UserContext
from sim.units import SECOND

OLDER_MAX = 2  # minor versions that an agent may be behind
APART_MAX = 1  # minor versions between API servers
_VERSION = pattern(r"v?(\d+)\.(\d+)\.(\d+)")


class Upgrade(Strict, kw_only=True):
    """The parameters of `upgrade`.  One of nodes and api_server is given."""

    nodes: Annotated[Nodes | UnsetType, Meta(description="Nodes, of which the agents are replaced.")] = UNSET
    api_server: Annotated[OneOrMore | UnsetType, Meta(description="API servers, in place of nodes.")] = UNSET
    version: Annotated[str, Meta(description="The version, as `v1.24.17`.")]


@dataclass(frozen=True, slots=True)
class ReplacePrograms(Action):
    """These agents or API servers end and start again with another version."""

    actors: tuple[str, ...]
    version: str
    of_nodes: bool
    picked: ClassVar[str] = "actors"
    untraced: ClassVar[tuple[str, ...]] = ("of_nodes",)

    def begin(self, stage: Stage, step: str) -> None:
        """Replace each program, unless the versions would be too far apart."""
        cluster = stage.cluster
        for host in self.actors:
            agents = {node.name: node.machine.version or RELEASE for node in cluster.nodes.values()}
            servers = {name: server.version or RELEASE for name, server in cluster.api_servers.items()}
            (agents if self.of_nodes else servers)[host] = self.version
            if problem := skew(agents, servers, host):
                cluster.admin.note("upgrade", host, problem)
                continue
            program = cluster.nodes[host].machine if self.of_nodes else cluster.api_servers[host]
            program.version = self.version
            cluster.admin.note("upgrade", host, "ok")
            process = cluster.supervisor[host]
            if process.running:
                done, before = cluster.admin.pending(), process.incarnations
                process.terminate()
                process.start()
                _await_start(stage, process, before, done)


def _await_start(stage: Stage, process: Actor, before: int, done: Callable[[], None]) -> None:
    """Call `done` once the next incarnation has started; the last one may take its time to end."""

    def look(_: object) -> None:
        if process.incarnations > before:
            done()
        else:
            stage.cluster.kernel.call_later(SECOND, look)

    look(None)


def skew(agents: dict[str, str], servers: dict[str, str], changed: str) -> str:
    """What is wrong with the versions of agents and API servers once one has changed; "" if nothing
    is.
    """
    minors = {name: minor_of(version) for name, version in servers.items()}
    newest, oldest = max(minors, key=minors.__getitem__), min(minors, key=minors.__getitem__)
    if changed in servers and minors[newest] - minors[oldest] > APART_MAX:
        other = oldest if changed == newest else newest
        return f"{servers[changed]} is more than {APART_MAX} minor version from {servers[other]} of {other}"
    for name, version in agents.items():
        if changed not in (name, *servers):
            continue
        minor = minor_of(version)
        if minor > minors[oldest]:
            return f"{version} of {name} is newer than {servers[oldest]} of {oldest}"
        if minor < minors[newest] - OLDER_MAX:
            behind = f"more than {OLDER_MAX} minor versions behind"
            return f"{version} of {name} is {behind} {servers[newest]} of {newest}"
    return ""


def minor_of(version: str) -> int:
    """The minor version, counted with the major one."""
    result = _VERSION.fullmatch(version)
    assert result is not None
    return int(result[1]) * 1_000 + int(result[2])


def _check(context: UserContext, given: Upgrade) -> ReplacePrograms:
    if not _VERSION.fullmatch(given.version):
        raise context.error("version", f"{given.version!r} is no version", "write it as v1.24.17")
    version = f"v{given.version.removeprefix('v')}"
    if isinstance(given.nodes, Nodes) and isinstance(given.api_server, UnsetType):
        return ReplacePrograms(context.nodes(given.nodes), version, True)
    if isinstance(given.nodes, UnsetType) and not isinstance(given.api_server, UnsetType):
        return ReplacePrograms(context.servers(given.api_server), version, False)
    raise context.error("", "upgrades either nodes or API servers", "give one of 'nodes' and 'apiServer'")


KIND = StepKind(
    name="upgrade",
    parameters=Upgrade,
    check=_check,
    documentation="""
A person replaces the program of node agents or API servers by one of another version: it ends and starts again, and reports
that version; it behaves as before. What the policy of version skew does not allow is refused: an agent that is newer than an
API server or more than two minor versions older, API servers more than one minor version apart.""",
    example="""
- {at: 3m, upgrade: {apiServer: apiserver-0, version: v1.26.1}}
- {at: 5m, upgrade: {nodes: {zone: a}, version: v1.24.17}}""",
)
