"""Bootstrap signer: signs the ConfigMap cluster-info with each bootstrap token that may sign it.

A joining machine that knows a token checks by its signature that cluster-info is not forged.

Mirrors  kubernetes v1.25 pkg/controller/bootstrap/bootstrapsigner.go.
"""

from __future__ import annotations

from actors.controllers.bootstrap.tokens import is_bootstrap_token, signed_config_map, signing_token
from actors.controllers.shared.shell import Env, run_workers
from sim.api.types import Obj

CLIENT = "bootstrap-signer"
WORKERS = 1


async def start(env: Env) -> None:
    """Run the bootstrap signer until its process ends."""
    names = env.names
    client = env.client(CLIENT)
    secrets, config_maps = env.informers["secrets"], env.informers["configmaps"]
    queue = env.queue("bootstrap_signer_queue")
    signed = f"{names.public_namespace}/{names.config_map_cluster_info}"

    def map_changed(config_map: Obj) -> None:
        metadata = config_map["metadata"]
        if f"{metadata['namespace']}/{metadata['name']}" == signed:
            queue.add(signed)

    def secret_changed(secret: Obj) -> None:
        if is_bootstrap_token(secret, names):
            queue.add(signed)

    async def sync(key: str) -> str | None:
        config_map = config_maps.get(key)
        if config_map is None:
            return None
        now_us = env.ctx.wall_us()
        found = [
            signing_token(secret, names, now_us)
            for secret in secrets.list()
            if is_bootstrap_token(secret, names)
        ]
        made = signed_config_map(config_map, [token for token in found if token is not None], names)
        if made is not None:
            # An error is reported and not retried; the next change of either kind signs again.
            await client.update("configmaps", made)
        return None

    config_maps.on(add=map_changed, update=lambda _, new: map_changed(new))
    secrets.on(add=secret_changed, update=lambda _, new: secret_changed(new), delete=secret_changed)
    await env.informers.start_and_sync()
    run_workers(env, queue, sync, WORKERS)
