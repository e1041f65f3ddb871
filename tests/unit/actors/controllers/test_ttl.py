"""The TTL annotation by the size of the cluster."""

from actors.controllers.ttl import BANDS, next_band


def through(sizes: range, band: int = 0) -> dict[int, int]:
    """Size -> seconds, for each size at which the value changes."""
    changes = {}
    for nodes in sizes:
        after = next_band(band, nodes)
        if after != band:
            changes[nodes] = BANDS[after].seconds
        band = after
    return changes


def test_growing_cluster_caches_longer() -> None:
    assert through(range(1, 3000)) == {101: 15, 501: 30, 1001: 60, 2001: 300}


def test_shrinking_cluster_changes_the_ttl_at_smaller_sizes() -> None:
    assert through(range(3000, 0, -1), band=4) == {1799: 60, 899: 30, 449: 15, 89: 0}
