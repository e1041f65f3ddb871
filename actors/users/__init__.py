"""Users of the cluster: an administrator, and programs that put load on the API.

A user's command becomes the requests that kubectl would send, and is done when the last is
answered.
"""

from actors.users.admin import (
    Admin,
    ApplyAll,
    Command,
    Cordon,
    DeleteAll,
    Drain,
    EvictAll,
    Orders,
    PatchAll,
    ScaleTo,
    SeizeLease,
    Taint,
)
from actors.users.load import Load, LoadSpec

__all__ = [
    "Admin",
    "ApplyAll",
    "Command",
    "Cordon",
    "DeleteAll",
    "Drain",
    "EvictAll",
    "Load",
    "LoadSpec",
    "Orders",
    "PatchAll",
    "ScaleTo",
    "SeizeLease",
    "Taint",
]
