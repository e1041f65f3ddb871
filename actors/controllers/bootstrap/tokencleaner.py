"""Token cleaner: deletes the Secrets of bootstrap tokens when they expire.

Mirrors  kubernetes v1.25 pkg/controller/bootstrap/tokencleaner.go.
"""

from __future__ import annotations

from actors.controllers.bootstrap.tokens import expires_in_us, is_bootstrap_token
from actors.controllers.shared.shell import Env, run_workers
from sim.api.types import Obj

CLIENT = "token-cleaner"
WORKERS = 1


async def start(env: Env) -> None:
    """Run the token cleaner until its process ends."""
    client, secrets = env.client(CLIENT), env.informers["secrets"]
    queue = env.queue("token_cleaner")

    def changed(secret: Obj) -> None:
        if is_bootstrap_token(secret, env.names):
            queue.add(f"{secret['metadata']['namespace']}/{secret['metadata']['name']}")

    async def sync(key: str) -> str | None:
        secret = secrets.get(key)
        if secret is None or not is_bootstrap_token(secret, env.names):
            return None
        left_us = expires_in_us(secret, env.ctx.wall_us())
        if left_us:
            queue.add_after_us(key, left_us)
        elif left_us == 0:
            metadata = secret["metadata"]
            # An error is reported and not retried; the Secret is checked again when it changes.
            await client.delete("secrets", metadata["namespace"], metadata["name"], uid=metadata["uid"])
        return None

    secrets.on(add=changed, update=lambda _, new: changed(new))
    await env.informers.start_and_sync()
    run_workers(env, queue, sync, WORKERS)
