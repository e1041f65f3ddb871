"""The scheduler process: `scheduler_main` is its actor's main.

One pod at a time is taken from the queue, tried on the nodes of a snapshot and assumed on one; its
binding runs beside the next attempt. A pod that fits nowhere waits for an event that could change
the answer of the plugins that refused it.
"""

from actors.scheduler.actor import scheduler_main

__all__ = ["scheduler_main"]
