"""Which front reads HTTP/1.1 in tests: the direct one, or hypercorn."""

from __future__ import annotations


class _Chosen:
    """direct: HTTP/1.1 is read without hypercorn"""

    direct = True


CHOSEN = _Chosen()
