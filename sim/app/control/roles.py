"""The roles of users of the control API, which a served cluster has.

A binding gives them to users: `kubectl create clusterrolebinding NAME --clusterrole=orrery-viewer
--user=USER`.  Administrators may do all without one.
"""

from __future__ import annotations

from typing import Any

from sim.ident import NAMES


def control_roles(naming: str) -> list[dict[str, Any]]:
    """The manifests: orrery-viewer may read, orrery-operator may steer."""
    version = f"{NAMES[naming].group('rbac')}/v1"
    return [
        {
            "apiVersion": version,
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [{"nonResourceURLs": ["/orrery/*"], "verbs": verbs}],
        }
        for name, verbs in (("orrery-viewer", ["get"]), ("orrery-operator", ["*"]))
    ]
