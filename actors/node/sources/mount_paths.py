"""The paths in volumes that a container mounts, with its variables in them.  Pure.

Turns a container and the values of its environment into the error of a mount with a path that
cannot be made.

Mirrors  pkg/kubelet/kubelet_pods.go: makeMounts; pkg/kubelet/container/helpers.go:
         ExpandContainerVolumeMounts; pkg/volume/validation/pv_validation.go:
         ValidatePathNoBacksteps (v1.25).
"""

from __future__ import annotations

from collections.abc import Mapping

from actors.node.sources.environment import expanded
from sim.api.types import Obj


def expands_paths(container: Obj) -> bool:
    """True if a path in a volume of the container holds variables."""
    return any(mount.get("subPathExpr") for mount in container.get("volumeMounts") or ())


def path_problem(container: Obj, variables: Mapping[str, str]) -> str:
    """Why a mount of the container cannot be made; "" if all can."""
    for mount in container.get("volumeMounts") or ():
        text = mount.get("subPathExpr")
        if not text:
            continue  # the API has checked a path without variables
        missing: list[str] = []

        def value_of(name: str, missing: list[str] = missing) -> str:
            if not variables.get(name):
                missing.append(name)
            return variables.get(name, "")

        path = expanded(text, value_of)
        if missing:
            return f"missing value for {', '.join(sorted(dict.fromkeys(missing)))}"
        if path.startswith("/"):
            return f"error SubPath `{path}` must not be an absolute path"
        if ".." in path.split("/"):
            return f"unable to provision SubPath `{path}`: must not contain '..'"
    return ""
