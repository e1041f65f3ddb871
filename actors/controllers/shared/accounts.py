"""The service accounts of controllers: each is created when its controller's client is made.

Mirrors  kubernetes v1.25 staging/src/k8s.io/controller-manager pkg/clientbuilder/
         client_builder_dynamic.go (getOrCreateServiceAccount).
Differs  The account is looked up once per process. The client does not wait for it; a failure is
         retried each second, where upstream ends the process. The namespace is never created, as
         the API server keeps it.
"""

from __future__ import annotations

from sim.api.types import Obj
from sim.client import Client
from sim.kernel import Context
from sim.units import SECOND

RETRY_US = SECOND


class Accounts:
    """Creates the accounts of one controller manager process in the system namespace.

    client: with the user of the controller manager itself
    """

    def __init__(self, ctx: Context, client: Client) -> None:
        self._ctx = ctx
        self._client = client
        self._namespace = client.scheme.names.system_namespace
        self._known: set[str] = set()

    def ensure(self, name: str) -> None:
        """Create an account, unless it exists."""
        if name not in self._known:
            self._known.add(name)
            self._ctx.spawn(self._create, name, name=f"account of {name}")

    async def _create(self, name: str) -> None:
        while not await self._exists(name):
            await self._ctx.sleep_us(RETRY_US)

    async def _exists(self, name: str) -> bool:
        found = await self._client.get("serviceaccounts", self._namespace, name)
        if found.ok or found.reason != "NotFound":
            return found.ok
        made = await self._client.create("serviceaccounts", self._namespace, account(self._namespace, name))
        return made.ok or made.reason == "AlreadyExists"


def account(namespace: str, name: str) -> Obj:
    """A new service account."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
    }
