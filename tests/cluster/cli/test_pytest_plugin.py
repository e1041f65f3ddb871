"""The pytest plugin gives tests a cluster, with and without pytest-trio."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[3]

TESTS = """
import os
import ssl
import urllib.request
from pathlib import Path

import pytest


@pytest.mark.orrery(nodes=2, seed=7)
async def test_cluster(cluster, seed):
    await cluster.run_for("1m")
    assert (len(cluster.list("nodes")), seed) == (2, 7)


@pytest.mark.seeds(3)
async def test_under_seeds(cluster, seed, record_property):
    await cluster.run_for("20s")
    assert seed in (0, 1, 2) and len(cluster.list("nodes")) == 3


@pytest.mark.parametrize("seed", [4, 5])
async def test_under_parameters(cluster, seed):
    assert cluster.kernel.now_us == 0


@pytest.mark.seeds([4, 9])
def test_lab(lab, seed):
    assert lab.run("30s").nodes == 3 and seed in (4, 9)


@pytest.mark.orrery(nodes=1)
class TestOfClass:
    async def test_nearest(self, cluster):
        await cluster.run_for("20s")
        assert len(cluster.list("nodes")) == 1

    @pytest.mark.orrery(boot=0)
    async def test_all_markers_count(self, cluster):
        await cluster.run_for("1s")
        assert len(cluster.list("nodes")) == 1


def get(served, path):
    assert os.path.exists(served.kubeconfig)
    context = ssl._create_unverified_context()
    return urllib.request.urlopen(served.url + path, context=context, timeout=30).read()


@pytest.mark.orrery(pace=1000)
def test_program_outside(served_cluster):
    assert b"gitVersion" in get(served_cluster, "/version")
    assert "server: " + served_cluster.url in Path(served_cluster.kubeconfig).read_text()


async def test_program_outside_with_own_time(served_cluster):
    await served_cluster.cluster.run_for("1s")
    assert served_cluster.url.startswith("https://")


async def test_that_fails(cluster):
    await cluster.run_for("1s")
    assert cluster.kernel.now_us == 3
"""

TRIO_MODE = ["-p", "trio", "-o", "trio_mode=true"]


@pytest.mark.slow
@pytest.mark.parametrize("options", [["-p", "no:trio"], [], TRIO_MODE], ids=["alone", "beside", "trio_mode"])
def test_plugin_runs_tests(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(TESTS)
    given = [
        "-p",
        "orrery.pytest_plugin",
        "-p",
        "no:cacheprovider",
        "--strict-markers",
        "-W",
        "error",
        *options,
    ]
    result = pytester.runpytest_subprocess(*given, timeout=300)
    result.assert_outcomes(passed=12, failed=1)
    result.stdout.fnmatch_lines(["*assert 1000000 == 3*", "FAILED *test_that_fails*"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("test", "says"),
    [
        ("def test_x(cluster): pass", "*a test that uses the fixture `cluster` is async*"),
        ("@pytest.mark.seeds(2)\ndef test_x(tmp_path): pass", "*the marker seeds goes with the fixtures*"),
        ("@pytest.mark.seeds()\ndef test_x(seed): pass", "*the marker seeds takes a number or a list*"),
        (
            "@pytest.mark.orrery(3)\nasync def test_x(cluster): pass",
            "*the parameters of the marker orrery have names*",
        ),
        (
            "@pytest.mark.orrery(nodes=1, boot='soon')\nasync def test_x(cluster): pass",
            "*'soon' is no duration*",
        ),
    ],
)
def test_wrong_use_says_what_is_wanted(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, test: str, says: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(f"import pytest\n{test}\n")
    result = pytester.runpytest_subprocess(
        "-p", "orrery.pytest_plugin", "-p", "no:cacheprovider", timeout=100
    )
    assert result.ret != 0
    result.stdout.fnmatch_lines([says])
