"""The control API of a served cluster over HTTP: its paths, what they are put together from, and a
client.
"""

from __future__ import annotations

PREFIX = "/orrery/v1"  # of all paths
