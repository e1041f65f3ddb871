"""AppArmor and seccomp profiles that a container names and its machine may not have.  Pure.

Turns a container, and the names of the profiles on the machine, into the error with which the
runtime refuses to create the container.

Mirrors  pkg/kubelet/kuberuntime/helpers.go: getSeccompProfile; pkg/security/apparmor/helpers.go:
         GetProfileName (v1.25); containerd pkg/cri/server/container_create_linux.go:
         generateApparmorSpecOpts, generateSeccompSpecOpts; contrib/seccomp: WithProfile (1.6).
Differs  a machine has every profile unless its scenario lists those that it has.
"""

from __future__ import annotations

from actors.node.runtime.profile import RuntimeProfile
from sim.api.types import Obj

LOCALHOST = "localhost/"
ROOT = "/var/lib/kubelet"
NOTHING: Obj = {}


def _seccomp_of(pod: Obj, container: Obj) -> Obj:
    """The container's own profile, else its pod's; empty without one."""
    context = container.get("securityContext") or NOTHING
    found: Obj = (
        context.get("seccompProfile")
        or (pod["spec"].get("securityContext") or NOTHING).get("seccompProfile")
        or NOTHING
    )
    return found


def is_filtered(pod: Obj, container: Obj, by_default: bool) -> bool:
    """True if a seccomp profile filters the container's calls.

    by_default: True if those without a profile have that of the runtime
    """
    if (container.get("securityContext") or NOTHING).get("privileged"):
        return False
    named = _seccomp_of(pod, container).get("type")
    return by_default if named is None else named != "Unconfined"


def missing_profile(
    profile: RuntimeProfile, pod: Obj, container: Obj, app_armor_prefix: str, root: str = ROOT
) -> str:
    """The error because of a profile that the machine does not have; "" if it has them all.

    app_armor_prefix: of the annotation that names the profile of a container
    root: the agent's folder
    """
    annotations = pod["metadata"].get("annotations") or NOTHING
    app_armor = annotations.get(f"{app_armor_prefix}{container['name']}", "")
    name = app_armor.removeprefix(LOCALHOST)
    loaded = profile.app_armor_profiles
    if loaded is not None and app_armor.startswith(LOCALHOST) and name not in loaded:
        return f"failed to get container spec opts: failed to generate apparmor spec opts: apparmor profile not found {name}"
    context = container.get("securityContext") or NOTHING
    seccomp = _seccomp_of(pod, container)
    files = profile.seccomp_profiles
    if files is None or not seccomp or seccomp["type"] != "Localhost" or context.get("privileged"):
        return ""
    name = seccomp["localhostProfile"]
    if name in files:
        return ""
    path = f"{root}/seccomp/{name}"
    return (
        f'failed to create containerd container: cannot load seccomp profile "{path}": open {path}: '
        "no such file or directory"
    )
