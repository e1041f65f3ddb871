"""Profiles of AppArmor and seccomp that a machine does not have."""

from __future__ import annotations

from typing import Any

import pytest

from actors.node.runtime.profile import RuntimeProfile
from actors.node.runtime.security.profiles import missing_profile

PREFIX = "container.apparmor.security.beta.kubernetes.io/"
LOCALHOST = {"type": "Localhost", "localhostProfile": "profiles/audit.json"}
OTHER = {"type": "Localhost", "localhostProfile": "other.json"}
NO_FILE = (
    'failed to create containerd container: cannot load seccomp profile "/var/lib/kubelet/seccomp/profiles/audit.json": '
    "open /var/lib/kubelet/seccomp/profiles/audit.json: no such file or directory"
)
NOT_LOADED = "failed to get container spec opts: failed to generate apparmor spec opts: apparmor profile not found deny-write"


@pytest.mark.parametrize(
    ("app_armor", "of_pod", "of_container", "error"),
    [
        ("localhost/deny-write", None, None, NOT_LOADED),
        ("localhost/loaded", None, None, ""),
        ("runtime/default", None, None, ""),
        ("", LOCALHOST, None, NO_FILE),
        ("", OTHER, None, ""),
        ("", OTHER, {"seccompProfile": LOCALHOST}, NO_FILE),
        ("", LOCALHOST, {"seccompProfile": {"type": "RuntimeDefault"}}, ""),
        ("", LOCALHOST, {"privileged": True}, ""),
        ("localhost/deny-write", LOCALHOST, None, NOT_LOADED),
    ],
)
def test_container_of_a_profile_that_the_machine_does_not_have_is_an_error(
    app_armor: str, of_pod: Any, of_container: Any, error: str
) -> None:
    container = {"name": "c", **({"securityContext": of_container} if of_container else {})}
    annotations = {f"{PREFIX}c": app_armor} if app_armor else {}
    spec = {"containers": [container], **({"securityContext": {"seccompProfile": of_pod}} if of_pod else {})}
    pod = {"metadata": {"name": "p", "annotations": annotations}, "spec": spec}
    machine = RuntimeProfile(app_armor_profiles=("loaded",), seccomp_profiles=("other.json",))
    assert missing_profile(machine, pod, container, PREFIX) == error
    assert missing_profile(RuntimeProfile(), pod, container, PREFIX) == ""
