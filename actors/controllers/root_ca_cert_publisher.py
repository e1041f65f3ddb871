"""Publish the cluster's certificate authority as a ConfigMap in every active namespace.

Mirrors  kubernetes v1.25 pkg/controller/certificates/rootcacertpublisher/publisher.go.
"""

from __future__ import annotations

from actors.controllers.serviceaccount import is_active
from actors.controllers.shell import Env, is_terminating, run_workers
from sim.machinery.api import Obj

CLIENT = "root-ca-cert-publisher"
WORKERS = 1
DATA_KEY = "ca.crt"
DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the {short}-apiserver when using internal endpoints such as "
    "the internal service IP or {short}rnetes.default.svc. No other usage is guaranteed across distributions of "
    "{product} clusters."
)


async def start(env: Env) -> None:
    await CertificatePublisher(env).run()


class CertificatePublisher:
    def __init__(self, env: Env) -> None:
        self._env = env
        self._client = env.client(CLIENT)
        self._namespaces = env.informers["namespaces"]
        self._config_maps = env.informers["configmaps"]
        self._queue = env.queue("root_ca_cert_publisher")
        names = env.names
        self._name = names.config_map_root_ca
        self._annotation = f"{names.domain}/description"
        service = f"{names.apiserver_service}.default.svc"
        self._wanted = {
            "data": {DATA_KEY: env.root_ca},
            "description": "Contains a CA bundle that can be used to verify the "
            f"{names.component('apiserver')} when using internal endpoints such as the internal service IP or "
            f"{service}. No other usage is guaranteed across distributions of {names.product.capitalize()} clusters.",
        }

    async def run(self) -> None:
        self._namespaces.on(add=self._namespace_changed, update=lambda _, new: self._namespace_changed(new))
        self._config_maps.on(update=lambda _, new: self._map_changed(new), delete=self._map_changed)
        await self._env.informers.start_and_sync()
        run_workers(self._env, self._queue, self._sync, WORKERS)

    def _namespace_changed(self, namespace: Obj) -> None:
        if is_active(namespace):
            self._queue.add(namespace["metadata"]["name"])

    def _map_changed(self, config_map: Obj) -> None:
        if config_map["metadata"]["name"] == self._name:
            self._queue.add(config_map["metadata"]["namespace"])

    async def _sync(self, key: str) -> str | None:
        old = self._config_maps.get(f"{key}/{self._name}")
        if old is None:
            new = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": self._name,
                    "namespace": key,
                    "annotations": {self._annotation: self._wanted["description"]},
                },
                "data": self._wanted["data"],
            }
            reply = await self._client.create("configmaps", key, new)
            # the namespace may end, or may have ended, meanwhile
            gone = is_terminating(reply) or reply.reason == "NotFound"
            return None if reply.ok or gone else reply.message
        annotations = old["metadata"].get("annotations") or {}
        if old.get("data") == self._wanted["data"] and annotations.get(self._annotation):
            return None
        annotations = {**annotations, self._annotation: self._wanted["description"]}
        new = {
            **old,
            "metadata": {**old["metadata"], "annotations": annotations},
            "data": self._wanted["data"],
        }
        reply = await self._client.update("configmaps", new)
        return None if reply.ok else reply.message
