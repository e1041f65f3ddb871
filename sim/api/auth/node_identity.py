"""Which requests are those of a node's agent.

Mirrors  kubernetes v1.25 pkg/auth/nodeidentifier/default.go.
"""

from __future__ import annotations

from sim.api.types import UserInfo
from sim.ident import Names


def node_of(names: Names, user: UserInfo) -> str | None:
    """The node of an agent's user, "" if it names none; None for another user."""
    prefix = names.user_node_prefix
    if not user.name.startswith(prefix) or names.group_nodes not in user.groups:
        return None
    return user.name.removeprefix(prefix)
