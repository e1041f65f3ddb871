"""The recipe "A metric" of CONTRIBUTING, carried out on a copy of the sources.

The counter `ttl_controller_patches_total` counts the patches of the TTL controller.  It is one line
in the list of families, and one line where a patch is sent.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cluster.cli.copied_sources import ROOT, add_line, copy_sources, orrery

FAMILY = "ttl_controller_patches_total | counter | ALPHA | - | Number of nodes that got another annotation."
COUNT = '        count(self._env.ctx.kernel, "ttl_controller_patches_total")'
SCENARIO = ROOT / "scenarios" / "single-node-death.yaml"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = copy_sources(tmp_path_factory.mktemp("sources"))
    add_line(copy / "sim/wire/http/measures/families.txt", "service_controller_rate_limiter_use |", FAMILY)
    loop = copy / "actors/controllers/ttl.py"
    add_line(loop, "from sim.dataclass import", "from sim.kernel.measure import count")
    add_line(loop, "reply = await self._client.patch(", COUNT)
    return copy


def hash_of(output: str) -> str:
    found = re.search(r"sha256 ([0-9a-f]{64})", output)
    assert found is not None, output
    return found.group()


@pytest.mark.slow
def test_added_metric_is_shown_and_moves_no_hash(sources: Path, tmp_path: Path) -> None:
    file = tmp_path / "metrics.prom"
    counted = orrery(sources, "run", SCENARIO, "--no-report", "--metrics", file)
    assert counted.returncode == 0, counted.stdout + counted.stderr
    lines = file.read_text().splitlines()
    assert [line for line in lines if line.startswith("ttl_controller_patches_total ")] == [
        "ttl_controller_patches_total 10"
    ]
    uncounted = orrery(sources, "run", SCENARIO, "--no-report")
    assert hash_of(counted.stdout) == hash_of(uncounted.stdout)
