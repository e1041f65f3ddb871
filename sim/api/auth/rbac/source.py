"""The roles and bindings that an authorizer reads.

`RoleBook` holds them in memory; its owner fills it, object by object.

Mirrors  kubernetes v1.25 pkg/registry/rbac/validation/rule.go (RoleGetter and its neighbours).
Differs  bindings are listed in the order of their names; upstream lists them in random order.
"""

from __future__ import annotations

from collections.abc import Sequence

from sim.api.types import Obj

ROLES, CLUSTER_ROLES = "roles", "clusterroles"
ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS = "rolebindings", "clusterrolebindings"
RESOURCES = (ROLES, CLUSTER_ROLES, ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)


class RoleBook:
    """A source in memory: its owner puts and removes objects."""

    def __init__(self) -> None:
        self.generation = 0  # rises with each change
        self._roles: dict[tuple[str, str], Obj] = {}
        self._bindings: dict[str, dict[str, Obj]] = {}
        self._listed: dict[str, list[Obj]] = {}

    def put(self, resource: str, obj: Obj) -> None:
        """Adds or replaces an object of one of `RESOURCES`."""
        namespace, name = _key_of(obj)
        if resource in (ROLES, CLUSTER_ROLES):
            self._roles[namespace, name] = obj
        else:
            self._bindings.setdefault(namespace, {})[name] = obj
            self._listed.pop(namespace, None)
        self.generation += 1

    def remove(self, resource: str, namespace: str, name: str) -> None:
        """Removes an object of one of `RESOURCES`; does nothing if there is none."""
        if resource in (ROLES, CLUSTER_ROLES):
            self._roles.pop((namespace, name), None)
        else:
            self._bindings.get(namespace, {}).pop(name, None)
            self._listed.pop(namespace, None)
        self.generation += 1

    def role(self, namespace: str, name: str) -> Obj | None:
        """A Role, or a ClusterRole if the namespace is ""."""
        return self._roles.get((namespace, name))

    def bindings(self, namespace: str) -> Sequence[Obj]:
        """The RoleBindings of a namespace, or the ClusterRoleBindings if it is "", in the order of
        their names.
        """
        listed = self._listed.get(namespace)
        if listed is None:
            known = self._bindings.get(namespace, {})
            listed = self._listed[namespace] = [known[name] for name in sorted(known)]
        return listed


def _key_of(obj: Obj) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
