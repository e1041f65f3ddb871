"""Orrery: a whole container-orchestration cluster in virtual time, behind the real API.

`ARCHITECTURE.md` is the map of the packages below this one and of `actors`.
"""

__version__ = "0.1.0"
