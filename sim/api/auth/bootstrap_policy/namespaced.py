"""The Roles and RoleBindings of the system namespace and the public namespace.

Mirrors  kubernetes v1.25 plugin/pkg/auth/authorizer/rbac/bootstrappolicy/namespace_policy.go.
"""

from __future__ import annotations

from sim.api.auth.bootstrap_policy.controller_roles import PREFIX
from sim.api.auth.bootstrap_policy.writer import READ, PolicyWriter
from sim.api.types import Obj

_READER = "extension-apiserver-authentication-reader"
_LOCKING = "system::leader-locking-"


def roles(writer: PolicyWriter) -> list[Obj]:
    """Return the Roles, those of one namespace after another."""
    rule, names = writer.rule, writer.names
    system, public = names.system_namespace, names.public_namespace

    def locking(component: str) -> Obj:
        own = rule("get update", "core", "configmaps", named=[component])
        return writer.role(system, f"{_LOCKING}{component}", rule("watch", "core", "configmaps"), own)

    return [
        writer.role(
            public,
            f"{PREFIX}bootstrap-signer",
            rule(READ, "core", "configmaps"),
            rule("update", "core", "configmaps", named=[names.config_map_cluster_info]),
            writer.events(),
        ),
        writer.role(
            system, _READER, rule(READ, "core", "configmaps", named=[names.config_map_authentication])
        ),
        writer.role(system, f"{PREFIX}bootstrap-signer", rule(READ, "core", "secrets")),
        writer.role(system, f"{PREFIX}cloud-provider", rule("create get list watch", "core", "configmaps")),
        writer.role(
            system,
            f"{PREFIX}token-cleaner",
            rule(f"{READ} delete", "core", "secrets"),
            writer.events(),
        ),
        locking(names.component("controller-manager")),
        locking(names.component("scheduler")),
    ]


def role_bindings(writer: PolicyWriter) -> list[Obj]:
    """Return the RoleBindings, those of one namespace after another."""
    names, user, account = writer.names, writer.user, writer.account
    system, public = names.system_namespace, names.public_namespace
    manager, scheduler = user(names.user_controller_manager), user(names.user_scheduler)

    def locking(component: str, component_user: Obj) -> Obj:
        return writer.role_binding(system, f"{_LOCKING}{component}", component_user, account(component))

    def controller(namespace: str, name: str) -> Obj:
        return writer.role_binding(namespace, f"{PREFIX}{name}", account(name))

    return [
        controller(public, "bootstrap-signer"),
        locking(names.component("controller-manager"), manager),
        locking(names.component("scheduler"), scheduler),
        writer.role_binding(system, _READER, manager, scheduler, name=f"system::{_READER}"),
        controller(system, "cloud-provider"),
        controller(system, "token-cleaner"),
        controller(system, "bootstrap-signer"),
    ]
