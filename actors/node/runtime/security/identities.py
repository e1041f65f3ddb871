"""The user as which the programs of a container run.  Pure.

Turns the security contexts of a pod and of a container into numbers and capabilities.

Mirrors  pkg/kubelet/kuberuntime/security_context.go: determineEffectiveSecurityContext;
         containerd pkg/cri/server/container_create_linux.go: containerSpecOpts, oci/spec.go:
         defaultUnixCaps (v1.25, containerd 1.6).
Differs  every image runs as root unless the pod says otherwise.
"""

from __future__ import annotations

from actors.node.programs.process import CAPABILITIES, Identity
from sim.api.types import Obj

DEFAULT_CAPABILITIES = frozenset((
    "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
    "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
))  # fmt: skip
ALL_CAPABILITIES = frozenset(CAPABILITIES)


def identity_of(pod: Obj, container: Obj) -> Identity:
    """The user, groups and capabilities of a container's first process."""
    whole, own = (holder.get("securityContext") or {} for holder in (pod["spec"], container))
    uid, gid = (int(own.get(key, whole.get(key)) or 0) for key in ("runAsUser", "runAsGroup"))
    groups = [int(group) for group in whole.get("supplementalGroups") or ()]
    if whole.get("fsGroup") is not None:
        groups.append(int(whole["fsGroup"]))
    confined = own.get("allowPrivilegeEscalation") is False and not own.get("privileged")
    return Identity(uid, gid, tuple(dict.fromkeys(groups)), _capabilities(own), confined)


def _capabilities(own: Obj) -> frozenset[str]:
    if own.get("privileged"):
        return ALL_CAPABILITIES
    changes = own.get("capabilities") or {}
    added, dropped = ([_plain(name) for name in changes.get(key) or ()] for key in ("add", "drop"))
    # Quirk: ALL counts before single names, in both lists.
    found = ALL_CAPABILITIES if "ALL" in added else DEFAULT_CAPABILITIES
    if "ALL" in dropped:
        found = frozenset()
    return (found | (ALL_CAPABILITIES & set(added))) - set(dropped)


def _plain(name: str) -> str:
    return name.upper().removeprefix("CAP_")
