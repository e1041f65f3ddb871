"""The scheduler process: `scheduler_main` is its actor's main."""

from actors.scheduler.actor import scheduler_main

__all__ = ["scheduler_main"]
