"""Writes the rules, roles and bindings of the bootstrap policy compactly, in one naming set.

Turns words separated by spaces into the objects, with sorted lists as upstream's builder leaves
them.

Mirrors  kubernetes v1.25 pkg/apis/rbac/v1/helpers.go (PolicyRuleBuilder, ClusterRoleBindingBuilder,
         RoleBindingBuilder), plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go
         (addDefaultMetadata).
"""

from __future__ import annotations

from collections.abc import Iterable

from sim.api.types import Obj
from sim.ident import Names

READ = "get list watch"
LIST_WATCH = "list watch"
WRITE = "create update patch delete deletecollection"
READ_WRITE = f"{READ} {WRITE}"
READ_UPDATE = f"{READ} update patch"
BOOTSTRAPPING = "rbac-defaults"  # value of the label of each object


class PolicyWriter:
    """Writes the objects of one naming set."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._api_group = names.group("rbac")
        self._api_version = names.api_version("rbac", "v1")

    # --- rules ------------------------------------------------------------------------------------

    def rule(self, verbs: str, groups: str, *resources: str, named: Iterable[str] = ()) -> Obj:
        """A rule for resources.

        verbs: separated by spaces
        groups: short names separated by spaces; "core" for the group without a name, "*" for all
        named: names of the only objects that the rule covers; none for all
        """
        only = sorted(named)
        return {
            "verbs": sorted(verbs.split()),
            "apiGroups": sorted(self._group(group) for group in groups.split()),
            "resources": sorted(resources),
            **({"resourceNames": only} if only else {}),
        }

    def paths(self, verbs: str, *paths: str) -> Obj:
        """A rule for paths that are no resources."""
        return {"verbs": sorted(verbs.split()), "nonResourceURLs": sorted(paths)}

    def events(self) -> Obj:
        """The rule of each component that records events."""
        return self.rule("create update patch", "core events", "events")

    # --- roles ------------------------------------------------------------------------------------

    def cluster_role(self, name: str, *rules: Obj, aggregated_to: str = "", aggregates: str = "") -> Obj:
        """A ClusterRole.

        aggregated_to: the role that takes over the rules of this one ("admin", "edit", "view")
        aggregates: the word of the labels of the roles that make up this one, which then has no
            rules of its own
        """
        prefix = self.names.label_aggregate_prefix
        labels = {f"{prefix}{aggregated_to}": "true"} if aggregated_to else {}
        made = self._object("ClusterRole", {"name": name}, labels)
        if not aggregates:
            return {**made, "rules": list(rules)}
        selector = {"matchLabels": {f"{prefix}{aggregates}": "true"}}
        return {**made, "rules": None, "aggregationRule": {"clusterRoleSelectors": [selector]}}

    def role(self, namespace: str, name: str, *rules: Obj) -> Obj:
        """A Role."""
        made = self._object("Role", {"name": name, "namespace": namespace})
        return {**made, "rules": list(rules)}

    # --- bindings ---------------------------------------------------------------------------------

    def cluster_role_binding(self, role: str, *subjects: Obj) -> Obj:
        """A ClusterRoleBinding with the name of its role."""
        return self._binding("ClusterRoleBinding", {"name": role}, "ClusterRole", role, subjects)

    def role_binding(self, namespace: str, role: str, *subjects: Obj, name: str = "") -> Obj:
        """A RoleBinding to a Role, with the name of the role unless `name` is given."""
        return self._binding(
            "RoleBinding", {"name": name or role, "namespace": namespace}, "Role", role, subjects
        )

    def user(self, name: str) -> Obj:
        """The subject for a user."""
        return {"kind": "User", "apiGroup": self._api_group, "name": name}

    def group(self, name: str) -> Obj:
        """The subject for a group."""
        return {"kind": "Group", "apiGroup": self._api_group, "name": name}

    def account(self, name: str) -> Obj:
        """The subject for a service account of the system namespace."""
        return {"kind": "ServiceAccount", "name": name, "namespace": self.names.system_namespace}

    # --- parts ------------------------------------------------------------------------------------

    def _group(self, group: str) -> str:
        return group if group == "*" else self.names.group(group)

    def _binding(self, kind: str, identity: Obj, role_kind: str, role: str, subjects: Iterable[Obj]) -> Obj:
        made = self._object(kind, identity)
        members = list(subjects)
        return {
            **made,
            **({"subjects": members} if members else {}),
            "roleRef": {"apiGroup": self._api_group, "kind": role_kind, "name": role},
        }

    def _object(self, kind: str, identity: Obj, labels: Obj | None = None) -> Obj:
        return {
            "apiVersion": self._api_version,
            "kind": kind,
            "metadata": {
                **identity,
                "labels": {self.names.label_bootstrapping: BOOTSTRAPPING, **(labels or {})},
                "annotations": {self.names.annotation_rbac_autoupdate: "true"},
            },
        }
