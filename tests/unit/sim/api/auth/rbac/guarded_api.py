"""The verbs on a store in memory, with an RBAC authorizer that reads that store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from actors.storage import MemoryStore
from sim.api.auth.chain import Chain, RbacMember
from sim.api.auth.rbac.authorizer import RbacAuthorizer
from sim.api.auth.rbac.source import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from sim.api.scheme.scheme import Scheme
from sim.api.store import Item, Page, Range
from sim.api.types import Obj, Reply, UserInfo
from tests.unit.sim.api.golden_api import USER, Api

GROUP = "/apis/rbac.authorization.k8s.io/v1"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


class StoredRules:
    """A source of rules that reads the store on each question."""

    def __init__(self, store: MemoryStore, scheme: Scheme) -> None:
        self._store = store
        self._scheme = scheme

    @property
    def generation(self) -> int:
        return self._store.revision

    def role(self, namespace: str, name: str) -> Obj | None:
        item = self._store.get(self._scheme.key(ROLES if namespace else CLUSTER_ROLES, namespace, name))
        return None if item is None else item.obj

    def bindings(self, namespace: str) -> Sequence[Obj]:
        prefix = self._scheme.prefix(ROLE_BINDINGS if namespace else CLUSTER_ROLE_BINDINGS, namespace)
        page = self._store.range(Range(prefix))
        assert isinstance(page, Page)
        return [item.obj for item in page.items]


class GuardedApi(Api):
    """An `Api` with an authorizer in its registry; requests themselves are not authorized."""

    def __init__(self) -> None:
        super().__init__("ns")
        names = self.scheme.names
        rbac = RbacAuthorizer(names, StoredRules(self.store, self.scheme))
        self.registry = replace(self.registry, authorizer=Chain(names, [RbacMember(rbac)]))

    def path(self, resource: str, name: str = "", namespace: str = "") -> str:
        middle = f"/namespaces/{namespace or 'ns'}" if resource in (ROLES, ROLE_BINDINGS) else ""
        return f"{GROUP}{middle}/{resource}" + (f"/{name}" if name else "")

    def put(self, resource: str, obj: Obj) -> None:
        """Creates or replaces an object as an administrator."""
        metadata = obj["metadata"]
        reply = self.ask("PUT", self.path(resource, metadata["name"], metadata.get("namespace", "")), obj)
        assert reply.ok, reply.message

    def items(self, resource: str) -> list[Item]:
        """The stored objects of a resource."""
        page = self.store.range(Range(self.scheme.prefix(resource)))
        assert isinstance(page, Page)
        return list(page.items)

    def ask_as(self, user: UserInfo, method: str, path: str, body: Any, content: str = "") -> Reply:
        """A request of a user."""
        with self._acting(user):
            return self.ask(
                method, path, body, content or (MERGE if method == "PATCH" else "application/json")
            )

    @contextmanager
    def _acting(self, user: UserInfo) -> Any:
        self.user = user
        try:
            yield
        finally:
            self.user = USER
