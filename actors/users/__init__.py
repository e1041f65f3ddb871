"""People and programs that use the cluster."""

from actors.users.admin import (
    Admin,
    ApplyAll,
    Command,
    Cordon,
    DeleteAll,
    Drain,
    EvictAll,
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
    "PatchAll",
    "ScaleTo",
    "SeizeLease",
    "Taint",
]
