"""The pod security standards: the checks of a level that a pod fails, in upstream's words.

Level, minor version, pod annotations and pod spec become `Finding`s, in upstream's order.

Holds: only the arguments are read. A check of the level "restricted" replaces the check of
"baseline" that it is stricter than.

Mirrors  pod-security-admission v0.25 policy/check_*.go, policy/registry.go (order: baseline by
         name, then restricted).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from sim.api.types import Obj

LEVELS = ("privileged", "baseline", "restricted")
LATEST = 25  # the minor version of "latest"
_NOTHING: Obj = {}
EMPTY: Mapping[str, str] = {}
CONTAINERS = ("initContainers", "containers", "ephemeralContainers")

BASELINE_CAPABILITIES = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
    *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)
RESTRICTED_CAPABILITIES = ("NET_BIND_SERVICE",)
SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t")
SECCOMP_TYPES = ("RuntimeDefault", "Localhost")
SECCOMP_VALUES = ("runtime/default", "docker/default")  # of annotations
SECCOMP_FIELDS_SINCE = 19  # before, only annotations are checked
SYSCTLS = (
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
)
RESTRICTED_VOLUMES = (
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected"),
    "secret",
)


class Finding(NamedTuple):
    """One failed check."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


class Pod(NamedTuple):
    """The input of checks.

    apparmor: the annotations that name AppArmor profiles
    seccomp: the annotations that name seccomp profiles of the pod and its containers
    containers: of all kinds, in the order init, ordinary, ephemeral
    """

    apparmor: Mapping[str, str]
    seccomp: Mapping[str, str]
    spec: Obj
    containers: Sequence[Obj]

    @property
    def context(self) -> Obj:
        """The pod's security context."""
        return self.spec.get("securityContext") or _NOTHING

    @property
    def on_windows(self) -> bool:
        """True if the pod declares Windows as its operating system."""
        return (self.spec.get("os") or _NOTHING).get("name") == "windows"

    def where(self, bad: Callable[[Obj], bool]) -> list[str]:
        """The names of the containers that match a predicate."""
        return [c.get("name", "") for c in self.containers if bad(c)]


def findings(
    level: str, minor: int, apparmor: Mapping[str, str], spec: Obj, seccomp: Mapping[str, str] = EMPTY
) -> list[Finding]:
    """The checks that a pod fails at a level as of v1.`minor`.

    apparmor, seccomp: the pod's annotations that name such profiles
    """
    if level == "privileged":
        return []
    containers = [c for kind in CONTAINERS for c in spec.get(kind) or ()]
    pod = Pod(apparmor, seccomp, spec, containers)
    restricted = [check for check in _RESTRICTED if minor >= check.since] if level == "restricted" else []
    replaced = [check.instead_of for check in restricted]
    checks = [check for check in _BASELINE if check.name not in replaced] + restricted
    found = (check.judge(pod, minor) for check in checks)
    return [finding for finding in found if finding is not None]


# --- words ----------------------------------------------------------------------------------------


def _quoted(texts: Iterable[str]) -> str:
    return ", ".join(f'"{text}"' for text in texts)


def _many(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def _named(word: str, names: Sequence[str]) -> str:
    return f"{_many(word, len(names))} {_quoted(names)}"


def _setters(pod_is: bool, containers: Sequence[str]) -> str:
    """The places that set a field: "pod and containers "a", "b" "; "" if there is none."""
    return " and ".join(["pod"] * pod_is + ([_named("container", containers)] if containers else []))


def _security(container: Obj) -> Obj:
    return container.get("securityContext") or _NOTHING


def _capabilities(container: Obj) -> Obj:
    return _security(container).get("capabilities") or _NOTHING


# --- baseline -------------------------------------------------------------------------------------


def _apparmor(pod: Pod, minor: int) -> Finding | None:
    bad = sorted(
        f'{key}="{value}"'
        for key, value in pod.apparmor.items()
        if value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    return Finding(_many("forbidden AppArmor profile", len(bad)), ", ".join(bad)) if bad else None


def _added(pod: Pod, allowed: Sequence[str]) -> str:
    """The containers that add other capabilities, as text."""
    bad: dict[str, None] = {}
    for container in pod.containers:
        bad.update(
            (added, None) for added in _capabilities(container).get("add") or () if added not in allowed
        )
    names = pod.where(lambda c: any(added in bad for added in _capabilities(c).get("add") or ()))
    what = "in securityContext.capabilities.add"
    return f"{_named('container', names)} must not include {_quoted(sorted(bad))} {what}" if bad else ""


def _capabilities_baseline(pod: Pod, minor: int) -> Finding | None:
    detail = _added(pod, BASELINE_CAPABILITIES)
    return Finding("non-default capabilities", detail) if detail else None


def _host_namespaces(pod: Pod, minor: int) -> Finding | None:
    bad = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if pod.spec.get(field)]
    return Finding("host namespaces", ", ".join(bad)) if bad else None


def _host_path_volumes(pod: Pod, minor: int) -> Finding | None:
    bad = [v.get("name", "") for v in pod.spec.get("volumes") or () if v.get("hostPath") is not None]
    return Finding("hostPath volumes", _named("volume", bad)) if bad else None


def _host_ports(pod: Pod, minor: int) -> Finding | None:
    ports = sorted(
        {str(p["hostPort"]) for c in pod.containers for p in c.get("ports") or () if p.get("hostPort")}
    )
    names = pod.where(lambda c: any(p.get("hostPort") for p in c.get("ports") or ()))
    if not ports:
        return None
    uses = "uses" if len(names) == 1 else "use"
    return Finding(
        "hostPort", f"{_named('container', names)} {uses} {_many('hostPort', len(ports))} {', '.join(ports)}"
    )


def _privileged(pod: Pod, minor: int) -> Finding | None:
    bad = pod.where(lambda c: bool(_security(c).get("privileged")))
    detail = f"{_named('container', bad)} must not set securityContext.privileged=true"
    return Finding("privileged", detail) if bad else None


def _proc_mount(pod: Pod, minor: int) -> Finding | None:
    def kind(container: Obj) -> str:
        return str(_security(container).get("procMount") or "Default")

    bad = pod.where(lambda c: kind(c) != "Default")
    kinds = sorted({kind(c) for c in pod.containers if kind(c) != "Default"})
    detail = f"{_named('container', bad)} must not set securityContext.procMount to {_quoted(kinds)}"
    return Finding("procMount", detail) if bad else None


def _selinux(pod: Pod, minor: int) -> Finding | None:
    def options(holder: Obj) -> Obj:
        return holder.get("seLinuxOptions") or _NOTHING

    def bad(holder: Obj) -> bool:
        given = options(holder)
        return bool(given.get("type", "") not in SELINUX_TYPES or given.get("user") or given.get("role"))

    setters = _setters(bad(pod.context), pod.where(lambda c: bad(_security(c))))
    if not setters:
        return None
    given = [options(pod.context), *(options(_security(c)) for c in pod.containers)]
    types = sorted({str(o["type"]) for o in given if o.get("type", "") not in SELINUX_TYPES})
    # Quirk: nothing is said about user and role unless there is a bad type as well.
    data = [_named("type", types)] if types else []
    data += [
        f"{field} may not be set" for field in ("user", "role") if types and any(o.get(field) for o in given)
    ]
    return Finding(
        "seLinuxOptions", f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}"
    )


def _seccomp_type(holder: Obj) -> str | None:
    profile = holder.get("seccompProfile")
    return None if profile is None else str(profile.get("type", ""))


def _seccomp_bad(pod: Pod) -> Finding | None:
    def bad(holder: Obj) -> bool:
        kind = _seccomp_type(holder)
        return kind is not None and kind not in SECCOMP_TYPES

    setters = _setters(bad(pod.context), pod.where(lambda c: bad(_security(c))))
    if not setters:
        return None
    holders = [pod.context, *map(_security, pod.containers)]
    kinds = sorted({str(_seccomp_type(holder)) for holder in holders if bad(holder)})
    detail = f"{setters} must not set securityContext.seccompProfile.type to {_quoted(kinds)}"
    return Finding("seccompProfile", detail)


def _seccomp_baseline(pod: Pod, minor: int) -> Finding | None:
    if minor >= SECCOMP_FIELDS_SINCE:
        return _seccomp_bad(pod)
    bad = sorted(
        f'{key}="{value}"'
        for key, value in pod.seccomp.items()
        if value not in SECCOMP_VALUES and not value.startswith("localhost/")
    )
    detail = f"forbidden {_many('annotation', len(bad))} {', '.join(bad)}"
    return Finding("seccompProfile", detail) if bad else None


def _sysctls(pod: Pod, minor: int) -> Finding | None:
    bad = [s.get("name", "") for s in pod.context.get("sysctls") or () if s.get("name") not in SYSCTLS]
    return Finding("forbidden sysctls", ", ".join(bad)) if bad else None


def _host_process(pod: Pod, minor: int) -> Finding | None:
    def bad(holder: Obj) -> bool:
        return bool((holder.get("windowsOptions") or _NOTHING).get("hostProcess"))

    setters = _setters(bad(pod.context), pod.where(lambda c: bad(_security(c))))
    detail = f"{setters} must not set securityContext.windowsOptions.hostProcess=true"
    return Finding("hostProcess", detail) if setters else None


# --- restricted -----------------------------------------------------------------------------------

WINDOWS_SINCE = 25  # from this version on pods of Windows need not say what only Linux knows


def _escalation(pod: Pod, minor: int) -> Finding | None:
    if pod.on_windows and minor >= WINDOWS_SINCE:
        return None
    bad = pod.where(lambda c: _security(c).get("allowPrivilegeEscalation") is not False)
    detail = f"{_named('container', bad)} must set securityContext.allowPrivilegeEscalation=false"
    return Finding("allowPrivilegeEscalation != false", detail) if bad else None


def _capabilities_restricted(pod: Pod, minor: int) -> Finding | None:
    if pod.on_windows and minor >= WINDOWS_SINCE:
        return None
    details = []
    missing = pod.where(lambda c: "ALL" not in (_capabilities(c).get("drop") or ()))
    if missing:
        details.append(f'{_named("container", missing)} must set securityContext.capabilities.drop=["ALL"]')
    added = _added(pod, RESTRICTED_CAPABILITIES)
    if added:
        details.append(added)
    return Finding("unrestricted capabilities", "; ".join(details)) if details else None


def _restricted_volumes(pod: Pod, minor: int) -> Finding | None:
    bad, kinds = [], dict[str, None]()
    for volume in pod.spec.get("volumes") or ():
        sources = [field for field, value in volume.items() if field != "name" and value is not None]
        if not any(source in RESTRICTED_VOLUMES for source in sources):
            bad.append(volume.get("name", ""))
            kinds[sources[0] if sources else "unknown"] = None
    if not bad:
        return None
    use = "uses" if len(bad) == 1 else "use"
    return Finding(
        "restricted volume types",
        f"{_named('volume', bad)} {use} {_named('restricted volume type', sorted(kinds))}",
    )


def _non_root(pod: Pod, minor: int) -> Finding | None:
    by_pod = pod.context.get("runAsNonRoot")
    setters = _setters(by_pod is False, pod.where(lambda c: _security(c).get("runAsNonRoot") is False))
    if setters:
        return Finding("runAsNonRoot != true", f"{setters} must not set securityContext.runAsNonRoot=false")
    silent = [] if by_pod else pod.where(lambda c: _security(c).get("runAsNonRoot") is None)
    detail = f"pod or {_named('container', silent)} must set securityContext.runAsNonRoot=true"
    return Finding("runAsNonRoot != true", detail) if silent else None


def _root_user(pod: Pod, minor: int) -> Finding | None:
    setters = _setters(
        pod.context.get("runAsUser") == 0, pod.where(lambda c: _security(c).get("runAsUser") == 0)
    )
    return Finding("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


def _seccomp_restricted(pod: Pod, minor: int) -> Finding | None:
    if pod.on_windows and minor >= WINDOWS_SINCE:
        return None
    bad = _seccomp_bad(pod)
    if bad is not None or _seccomp_type(pod.context) is not None:
        return bad
    silent = pod.where(lambda c: _seccomp_type(_security(c)) is None)
    what = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Finding("seccompProfile", f"pod or {_named('container', silent)} {what}") if silent else None


class _Check(NamedTuple):
    """One check.

    since: the first minor version that has it
    instead_of: the baseline check that it replaces
    """

    name: str
    judge: Callable[[Pod, int], Finding | None]
    since: int = 0
    instead_of: str = ""


_BASELINE = (  # in the order of their names upstream
    _Check("appArmorProfile", _apparmor),
    _Check("capabilities", _capabilities_baseline),
    _Check("hostNamespaces", _host_namespaces),
    _Check("hostPathVolumes", _host_path_volumes),
    _Check("hostPorts", _host_ports),
    _Check("privileged", _privileged),
    _Check("procMount", _proc_mount),
    _Check("seLinuxOptions", _selinux),
    _Check("seccompProfile", _seccomp_baseline),
    _Check("sysctls", _sysctls),
    _Check("windowsHostProcess", _host_process),
)
_RESTRICTED = (
    _Check("allowPrivilegeEscalation", _escalation, 8),
    _Check("capabilities_restricted", _capabilities_restricted, 22, "capabilities"),
    _Check("restrictedVolumes", _restricted_volumes, 0, "hostPathVolumes"),
    _Check("runAsNonRoot", _non_root),
    _Check("runAsUser", _root_user, 23),
    _Check("seccompProfile_restricted", _seccomp_restricted, 19, "seccompProfile"),
)
