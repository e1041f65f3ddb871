"""Root CA publisher: writes the cluster's certificate authority into a ConfigMap of each namespace.

Holds: only active namespaces get the ConfigMap; a changed one is corrected.

Mirrors  kubernetes v1.25 pkg/controller/certificates/rootcacertpublisher/publisher.go.
Differs  the authority of a cluster is known when serving begins, which may be after the start of
         this process: it is then published again, where upstream reads a file once.
"""

from __future__ import annotations

from actors.controllers.serviceaccount import is_active
from actors.controllers.shared.shell import Env, is_terminating, run_workers
from sim.api.types import INTERNAL_SERVER_ERROR, Obj
from sim.kernel.measure import count, observe
from sim.units import SECOND

CLIENT = "root-ca-cert-publisher"
WORKERS = 1
OK = 200
DATA_KEY = "ca.crt"


async def start(env: Env) -> None:
    """Run the publisher until its process ends."""
    await CertificatePublisher(env).run()


class CertificatePublisher:
    """Shell of the controller: handlers, queue, and the sync of one namespace."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._client = env.client(CLIENT)
        self._namespaces = env.informers["namespaces"]
        self._config_maps = env.informers["configmaps"]
        self._queue = env.queue("root_ca_cert_publisher")
        names = env.names
        self._name = names.config_map_root_ca
        self._annotation = f"{names.domain}/description"
        self._data = {DATA_KEY: env.root_ca.pem}
        self._code = OK  # of the answer to the last write of the one worker
        self._description = (
            f"Contains a CA bundle that can be used to verify the {names.component('apiserver')} when using "
            "internal endpoints such as the internal service IP or "
            f"{names.apiserver_service}.default.svc. No other usage is guaranteed across distributions of "
            f"{names.product.capitalize()} clusters."
        )

    async def run(self) -> None:
        """Start the handlers and the worker."""
        self._namespaces.on(add=self._namespace_changed, update=lambda _, new: self._namespace_changed(new))
        self._config_maps.on(update=lambda _, new: self._map_changed(new), delete=self._map_changed)
        ctx = self._env.ctx
        ctx.on_stop(self._env.root_ca.on_change(lambda: ctx.call_later_us(0, self._authority_changed)))
        await self._env.informers.start_and_sync()
        run_workers(self._env, self._queue, self._counted, WORKERS)

    def _authority_changed(self, _: object) -> None:
        self._data = {DATA_KEY: self._env.root_ca.pem}
        for namespace in self._namespaces.list():
            self._namespace_changed(namespace)

    def _namespace_changed(self, namespace: Obj) -> None:
        if is_active(namespace):
            self._queue.add(namespace["metadata"]["name"])

    def _map_changed(self, config_map: Obj) -> None:
        if config_map["metadata"]["name"] == self._name:
            self._queue.add(config_map["metadata"]["namespace"])

    async def _counted(self, key: str) -> str | None:
        """Sync a namespace, and count it for a reader of metrics (metrics.go)."""
        began_us, self._code = self._env.ctx.now_us(), OK
        error = await self._sync(key)
        kernel, code = self._env.ctx.kernel, str(self._code if error is not None else OK)
        count(kernel, "root_ca_cert_publisher_sync_total", code)
        took_s = (self._env.ctx.now_us() - began_us) / SECOND
        observe(kernel, "root_ca_cert_publisher_sync_duration_seconds", took_s, code)
        return error

    async def _sync(self, key: str) -> str | None:
        old = self._config_maps.get(f"{key}/{self._name}")
        if old is None:
            new = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": self._name,
                    "namespace": key,
                    "annotations": {self._annotation: self._description},
                },
                "data": self._data,
            }
            reply = await self._client.create("configmaps", key, new)
            # The namespace may be terminating or gone by now.
            gone = is_terminating(reply) or reply.reason == "NotFound"
            self._code = reply.code or INTERNAL_SERVER_ERROR
            return None if reply.ok or gone else reply.message
        annotations = old["metadata"].get("annotations") or {}
        if old.get("data") == self._data and annotations.get(self._annotation):
            return None
        annotations = {**annotations, self._annotation: self._description}
        new = {
            **old,
            "metadata": {**old["metadata"], "annotations": annotations},
            "data": self._data,
        }
        reply = await self._client.update("configmaps", new)
        self._code = reply.code or INTERNAL_SERVER_ERROR
        return None if reply.ok else reply.message
