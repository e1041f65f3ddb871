"""Service account controller: creates the default service account of each active namespace.

Mirrors  kubernetes v1.25 pkg/controller/serviceaccount/serviceaccounts_controller.go.
"""

from __future__ import annotations

from actors.controllers.shared.accounts import account
from actors.controllers.shared.shell import Env, is_terminating, run_workers
from sim.api.types import Obj

CLIENT = "service-account-controller"
WORKERS = 1


async def start(env: Env) -> None:
    """Run the service account controller until its process ends."""
    client = env.client(CLIENT)
    namespaces, accounts = env.informers["namespaces"], env.informers["serviceaccounts"]
    queue = env.queue("serviceaccount")
    name = env.names.default_service_account

    async def sync(key: str) -> str | None:
        namespace = namespaces.get(key)
        if namespace is None or not is_active(namespace) or accounts.get(f"{key}/{name}") is not None:
            return None
        reply = await client.create("serviceaccounts", key, account(key, name))
        if reply.ok or reply.reason == "AlreadyExists" or is_terminating(reply):
            return None
        return reply.message

    def namespace_changed(namespace: Obj) -> None:
        queue.add(namespace["metadata"]["name"])

    def account_deleted(deleted: Obj) -> None:
        if deleted["metadata"]["name"] == name:
            queue.add(deleted["metadata"]["namespace"])

    namespaces.on(add=namespace_changed, update=lambda _, new: namespace_changed(new))
    accounts.on(delete=account_deleted)
    await env.informers.start_and_sync()
    run_workers(env, queue, sync, WORKERS)


def is_active(namespace: Obj) -> bool:
    """True if the namespace is in the phase Active."""
    return bool(namespace.get("status", {}).get("phase") == "Active")
