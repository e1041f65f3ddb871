"""Validation of pod specs for Windows: options of security contexts, and fields of Linux only.

Turns security contexts into field errors.

Mirrors  kubernetes v1.25 pkg/apis/core/validation/validation.go:
         validateWindowsSecurityContextOptions, validateWindows, validateWindowsHostProcessPod.
Differs  whether privileged containers are allowed, and so host processes, is judged in
         `gated_rules`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sim.api.types import Obj
from sim.api.validation import text
from sim.api.validation.errors import Errors, checked, forbidden, invalid
from sim.patterns import pattern

CREDENTIAL_SPEC_MAX_KIB = 64
DOMAIN_MAX, USER_MAX = 256, 104
_CONTROL = pattern(r"[\x00-\x1f\x7f]")
_NETBIOS = pattern(r"[^\\/:*?\"<>|.][^\\/:*?\"<>|]{0,14}")  # at most 15 characters
_DNS_LABEL = pattern(r"[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?")
_NO_USER = pattern(r"[. ]+")
_NOT_IN_USER = pattern(r"[\"/\\:;|=,+*?<>@\[\]]")
# Fields of a security context that only Linux has, in upstream's order.
_OF_LINUX_POD = (
    "seLinuxOptions", "hostPID", "hostIPC", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls",
    "shareProcessNamespace", "runAsUser", "runAsGroup", "supplementalGroups",
)  # fmt: skip
_OF_LINUX = (
    "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged",
    "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup",
)  # fmt: skip
_OF_SPEC = (
    "hostPID",
    "hostIPC",
    "shareProcessNamespace",
)  # set beside the security context; false counts as not set, but for the last


def windows_options(security: Obj, field: str) -> Errors:
    """Errors of the Windows options of one security context."""
    options = security.get("windowsOptions")
    if not options:
        return []
    at = f"{field}.windowsOptions"
    errors: Errors = []
    name, spec, user = (
        options.get(key) for key in ("gmsaCredentialSpecName", "gmsaCredentialSpec", "runAsUserName")
    )
    errors += checked(f"{at}.gmsaCredentialSpecName", name, text.subdomain)
    if spec is not None:
        size = len(spec.encode())
        if not size:
            errors.append(
                invalid(f"{at}.gmsaCredentialSpec", spec, "gmsaCredentialSpec cannot be an empty string")
            )
        elif size > CREDENTIAL_SPEC_MAX_KIB * 1024:
            detail = f"gmsaCredentialSpec size must be under {CREDENTIAL_SPEC_MAX_KIB} KiB"
            errors.append(invalid(f"{at}.gmsaCredentialSpec", spec, detail))
    if user is not None:
        errors += [invalid(f"{at}.runAsUserName", user, f"runAsUserName{problem}") for problem in _user(user)]
    return errors


def _user(name: str) -> Iterator[str]:
    """Problems of a user name, worded to follow the name of the field."""
    parts = name.split("\\")
    if not name:
        yield " cannot be an empty string"
    elif _CONTROL.search(name):
        yield " cannot contain control characters"
    elif len(parts) > 2:
        yield " cannot contain more than one backslash"
    else:
        if len(parts) == 2:
            yield from _domain(parts[0])
        user = parts[-1]
        if not user:
            yield "'s User cannot be empty"
        elif len(user.encode()) > USER_MAX:
            yield f"'s User length must not be longer than {USER_MAX} characters"
        if _NO_USER.fullmatch(user):
            yield "'s User cannot contain only periods or spaces"
        if _NOT_IN_USER.search(user):
            yield "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"


def _domain(domain: str) -> Iterator[str]:
    if len(domain.encode()) >= DOMAIN_MAX:
        yield f"'s Domain length must be under {DOMAIN_MAX} characters"
    if not _NETBIOS.fullmatch(domain) and not all(_DNS_LABEL.fullmatch(label) for label in domain.split(".")):
        yield "'s Domain doesn't match the NetBios nor the DNS format"


def only_linux_knows(spec: Obj, field: str) -> Errors:
    """Errors of fields that only Linux has, in a pod for Windows."""
    security = spec.get("securityContext") or {}
    errors: Errors = []
    for key in _OF_LINUX_POD:
        if key in _OF_SPEC:
            given, at = spec.get(key), f"{field}.{key}"
            given = given if key == "shareProcessNamespace" else given or None
        else:
            given, at = security.get(key), f"{field}.securityContext.{key}"
        if given is not None and given != []:
            errors.append(forbidden(at, "cannot be set for a windows pod"))
    for container, at in visited_containers(spec, field):
        security = container.get("securityContext") or {}
        errors += [
            forbidden(f"{at}.securityContext.{key}", "cannot be set for a windows pod")
            for key in _OF_LINUX
            if security.get(key) is not None
        ]
    return errors


def only_windows_knows(spec: Obj, field: str) -> Errors:
    """Errors of fields that only Windows has, in a pod for Linux."""
    return [
        forbidden(f"{at}.securityContext.windowsOptions", "windows options cannot be set for a linux pod")
        for holder, at in ((spec, field), *visited_containers(spec, field))
        if (holder.get("securityContext") or {}).get("windowsOptions") is not None
    ]


def host_processes(spec: Obj, field: str) -> Errors:
    """Errors of a pod in which some containers are host processes and others are not."""
    whole = is_host_process(spec)
    errors: Errors = []
    count = among = 0
    for container, at in visited_containers(spec, field):
        own = is_host_process(container)
        count += 1
        among += bool(whole if own is None else own)
        if None not in (whole, own) and whole is not own:
            detail = (
                f"pod hostProcess value must be identical if both are specified, was {str(whole).lower()}"
            )
            errors.append(invalid(f"{at}.securityContext.windowsOptions.hostProcess", own, detail))
    if among and among != count:
        detail = (
            "If pod contains any hostProcess containers then all containers must be HostProcess containers"
        )
        errors.append(invalid(field, "", detail))
    if among and not spec.get("hostNetwork"):
        detail = "hostNetwork must be true if pod contains any hostProcess containers"
        errors.append(invalid(f"{field}.hostNetwork", False, detail))
    return errors


def is_host_process(holder: Obj) -> Any:
    """What a pod or a container says of itself; None for nothing."""
    return ((holder.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")


def visited_containers(spec: Obj, field: str) -> Iterator[tuple[Obj, str]]:
    """Containers of all sorts, in the order in which upstream visits them."""
    for key in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(key) or ()):
            yield container, f"{field}.{key}[{i}]"
