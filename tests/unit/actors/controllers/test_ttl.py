"""The TTL annotation by the size of the cluster."""

import pytest

from actors.controllers.ttl import BANDS, next_band, seconds_at


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


@pytest.mark.parametrize(
    ("nodes", "seconds"),
    [(0, 0), (1, 0), (100, 0), (101, 15), (500, 15), (501, 30), (1001, 60), (2000, 60), (2001, 300)],
)
def test_annotation_of_a_cluster_that_grew_follows_its_size(nodes: int, seconds: int) -> None:
    assert seconds_at(nodes) == seconds


@pytest.mark.parametrize(
    ("band", "nodes", "after"),
    [(0, 0, 0), (0, 100, 0), (0, 101, 1), (1, 90, 1), (1, 89, 0), (1, 500, 1), (1, 501, 2), (4, 1800, 4)],
)
def test_a_band_is_left_one_node_beyond_its_border(band: int, nodes: int, after: int) -> None:
    assert next_band(band, nodes) == after
