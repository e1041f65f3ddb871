"""Persistent volume controller: binds claims to volumes, and provisions and reclaims volumes."""

from __future__ import annotations

from actors.controllers.persistentvolume_binder.binding import Binder
from actors.controllers.shared.shell import Env

CLIENT = "persistent-volume-binder"


async def start(env: Env) -> None:
    """Run the controller until its process ends."""
    await Binder(env).run()
