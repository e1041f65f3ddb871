"""The order of the names of versions.  Pure.

Mirrors  apimachinery v1.25 pkg/version/helpers.go (CompareKubeAwareVersionStrings).
"""

from __future__ import annotations

from sim.patterns import pattern

_VERSION = pattern(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
_STAGES = {"": 2, "beta": 1, "alpha": 0}


def version_order(version: str) -> tuple[int, int, int, int, str]:
    """Sort key: v10, v2, v1beta1, v1alpha1, then all other names alphabetically."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (1, 0, 0, 0, version)
    return (0, -_STAGES[match[2] or ""], -int(match[1]), -int(match[3] or 0), version)
