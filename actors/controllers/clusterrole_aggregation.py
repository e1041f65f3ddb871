"""ClusterRole aggregation: gathers the rules of ClusterRoles into those that select them.

Turns all ClusterRoles into the rules of one with an aggregation rule.

Holds: rules come selector by selector and role by role, by name; equal rules are kept once; a role
       never gathers its own rules.

Mirrors  kubernetes v1.25 pkg/controller/clusterroleaggregation
         (clusterroleaggregation_controller.go).
Quirk: a role that gathers no rules keeps those that other clients gave it, since the controller
       applies no rules then.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.controllers.shared.shell import Env, run_workers
from sim.api.auth.rbac.rules import Rule, rules_of
from sim.api.objects import name_of
from sim.api.types import Obj
from sim.api.validation.metadata import matches
from sim.options.features.gates import SERVER_SIDE_APPLY, enabled

NAME = "clusterrole-aggregation"
CLIENT = "clusterrole-aggregation-controller"  # and the field manager of its writes
WORKERS = 5


def gathered_rules(role: Obj, roles: Sequence[Obj]) -> list[Obj] | None:
    """The rules that a ClusterRole gathers from all ClusterRoles; None if it needs no change.

    roles: in the order of their names
    """
    aggregation = role.get("aggregationRule")
    if aggregation is None:
        return None
    gathered: dict[Rule, Obj] = {}
    for selector in aggregation.get("clusterRoleSelectors") or ():
        for other in roles:
            if name_of(other) == name_of(role) or not matches(selector, other["metadata"].get("labels")):
                continue
            for key, rule in zip(rules_of(other), other.get("rules") or (), strict=True):
                gathered.setdefault(key, rule)
    return None if tuple(gathered) == rules_of(role) else list(gathered.values())


async def start(env: Env) -> None:
    """Run the controller until its process ends."""
    await ClusterRoleAggregation(env).run()


class ClusterRoleAggregation:
    """Shell of the controller: handlers, queue, and the sync of one ClusterRole."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._client = env.client(CLIENT)
        self._roles = env.informers["clusterroles"]
        self._queue = env.queue("ClusterRoleAggregator")

    async def run(self) -> None:
        """Start the handlers and the workers."""
        self._roles.on(
            add=lambda _: self._queue_all(),
            update=lambda _, __: self._queue_all(),
            delete=lambda _: self._queue_all(),
        )
        await self._env.informers.start_and_sync()
        run_workers(self._env, self._queue, self._sync, WORKERS)

    def _queue_all(self) -> None:
        """Queues every role that gathers rules, since any of them may gather from the one that
        changed.
        """
        for role in self._roles.list():
            if role.get("aggregationRule") is not None:
                self._queue.add(name_of(role))

    async def _sync(self, key: str) -> str | None:
        role = self._roles.get(key)
        if role is None:
            return None
        rules = gathered_rules(role, sorted(self._roles.list(), key=name_of))
        if rules is None:
            return None
        api_version = self._env.names.api_version("rbac", "v1")
        applied: Obj = {"apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": key}}
        if rules:
            applied["rules"] = rules
        options = {"fieldManager": CLIENT, "force": "true"}
        reply = None
        if enabled(self._env.options.feature_gates, SERVER_SIDE_APPLY):
            reply = await self._client.patch("clusterroles", "", key, applied, "apply", options=options)
        if reply is None or reply.reason == "UnsupportedMediaType":
            reply = await self._client.update("clusterroles", {**role, "rules": rules or None})
        return None if reply.ok else reply.message
