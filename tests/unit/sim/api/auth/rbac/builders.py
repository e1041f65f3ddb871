"""Short forms of roles and bindings for tests."""

from __future__ import annotations

from collections.abc import Sequence

from sim.api.types import Obj
from sim.ident import NAMES

NAMES_USED = NAMES["kubernetes"]
GROUP = "rbac.authorization.k8s.io"


def rule(
    verbs: str, resources: str = "", groups: Sequence[str] = ("",), names: str = "", urls: str = ""
) -> Obj:
    """A rule; verbs, resources, names and urls are words."""
    if urls:
        return {"verbs": verbs.split(), "nonResourceURLs": urls.split()}
    made: Obj = {"verbs": verbs.split(), "apiGroups": list(groups), "resources": resources.split()}
    return {**made, "resourceNames": names.split()} if names else made


def role(name: str, *rules: Obj, namespace: str = "") -> Obj:
    """A Role, or a ClusterRole if the namespace is ""."""
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"metadata": metadata, "rules": list(rules)}


def user(name: str) -> Obj:
    """A subject of kind User."""
    return {"kind": "User", "apiGroup": GROUP, "name": name}


def group(name: str) -> Obj:
    """A subject of kind Group."""
    return {"kind": "Group", "apiGroup": GROUP, "name": name}


def account(name: str, namespace: str = "") -> Obj:
    """A subject of kind ServiceAccount."""
    made: Obj = {"kind": "ServiceAccount", "name": name}
    return {**made, "namespace": namespace} if namespace else made


def binding(
    name: str, referenced: str, *subjects: Obj, namespace: str = "", kind: str = "ClusterRole"
) -> Obj:
    """A RoleBinding, or a ClusterRoleBinding if the namespace is ""."""
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    reference = {"apiGroup": GROUP, "kind": kind, "name": referenced}
    return {"metadata": metadata, "roleRef": reference, "subjects": list(subjects)}
