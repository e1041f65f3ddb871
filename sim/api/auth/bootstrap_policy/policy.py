"""The whole bootstrap policy of a naming set, computed once.

Mirrors  kubernetes v1.25 pkg/registry/rbac/rest/storage_rbac.go (PolicyData).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from sim.api.auth.bootstrap_policy import cluster_roles, controller_roles, namespaced
from sim.api.auth.bootstrap_policy.writer import PolicyWriter
from sim.api.types import Obj
from sim.ident import NAMES


class BootstrapPolicy(NamedTuple):
    """The objects, in the order of their creation. They are shared: nothing may change them."""

    cluster_roles: tuple[Obj, ...]
    cluster_role_bindings: tuple[Obj, ...]
    roles: tuple[Obj, ...]
    role_bindings: tuple[Obj, ...]

    def objects(self) -> Iterator[tuple[str, Obj]]:
        """Yield (resource, object) in the order of creation."""
        for resource, objects in (
            ("clusterroles", self.cluster_roles),
            ("clusterrolebindings", self.cluster_role_bindings),
            ("roles", self.roles),
            ("rolebindings", self.role_bindings),
        ):
            for obj in objects:
                yield resource, obj


@cache
def bootstrap_policy(naming: str, gates: tuple[str, ...] = ()) -> BootstrapPolicy:
    """Return the policy of a naming set ("orch", "kubernetes").

    gates: of `controller_roles.OF_RULES` that are on
    """
    writer = PolicyWriter(NAMES[naming])
    of_controllers = controller_roles.controller_roles(writer, gates)
    return BootstrapPolicy(
        (*cluster_roles.cluster_roles(writer), *of_controllers),
        (
            *cluster_roles.cluster_role_bindings(writer),
            *controller_roles.controller_role_bindings(writer, gates),
        ),
        tuple(namespaced.roles(writer)),
        tuple(namespaced.role_bindings(writer)),
    )
