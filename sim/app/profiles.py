"""Names for the settings of clusters that a purpose needs.

Turns a name into settings, as `--set` takes them; further settings come after them.

Mirrors  kubernetes-sigs/controller-runtime pkg/envtest: an API server and its storage without any
         controller, scheduler or node, and without the admission plugin ServiceAccount
         (pkg/internal/testing/controlplane/apiserver.go).
"""

from __future__ import annotations

from sim.errors import InputError

PROFILES = {
    "envtest": (
        "cluster.naming=kubernetes",
        "cluster.controllerManager.replicas=0",
        "cluster.scheduler.replicas=0",
        "cluster.apiServer.flags.disable-admission-plugins=ServiceAccount",
    )
}


def settings_of(profile: str) -> tuple[str, ...]:
    """The settings of a profile, none for "".  Raises InputError."""
    if profile and profile not in PROFILES:
        raise InputError(f"there is no profile {profile!r}", "", f"one of: {', '.join(PROFILES)}")
    return PROFILES.get(profile, ())
