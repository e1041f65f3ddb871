"""Which requests are those of a node's agent.

Mirrors  kubernetes v1.25 pkg/auth/nodeidentifier/default.go.
"""

from __future__ import annotations

from sim.api.types import UserInfo
from sim.ident import Names
from sim.remembered import cached


def node_of(names: Names, user: UserInfo) -> str | None:
    """The node of an agent's user, "" if it names none; None for another user."""
    return _node_of(names.user_node_prefix, names.group_nodes, user.name, user.groups)


@cached(16_384)
def _node_of(prefix: str, nodes: str, name: str, groups: tuple[str, ...]) -> str | None:
    return name.removeprefix(prefix) if name.startswith(prefix) and nodes in groups else None
