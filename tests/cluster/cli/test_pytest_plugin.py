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
            "@pytest.mark.orrery(hunt=0)\nasync def test_x(cluster): pass",
            "*hunt takes a number of tests, or the section `hunt`; 0 is none*",
        ),
        (
            "@pytest.mark.orrery(hunt={'palette': ['zones']})\nasync def test_x(cluster): pass",
            "*no kind of step is named 'zones'*",
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


HUNTS = """
import pytest

OUTAGES = {"fail": {"nodes": {"pick": 1}, "how": "power-loss"}, "for": "50s..80s"}
SECTION = {"runs": 3, "duration": "4m", "palette": [OUTAGES], "steps": [1, 2], "folder": "stories", "shrink": 8}


@pytest.mark.orrery(nodes=3, hunt=SECTION)
async def test_nodes_stay(cluster, drawn_steps):
    await cluster.run_for("4m")
    assert not [one for one in cluster.list("events") if one["reason"] == "NodeNotReady"]


@pytest.mark.orrery(nodes=2, hunt=2)
def test_lab(lab, drawn_steps):
    lab.run("1m")
    assert 1 <= len([step for step in drawn_steps if "at" in step]) <= 5


async def test_without_a_hunt(cluster, drawn_steps):
    assert drawn_steps == []
"""

AGAIN = """
import pytest


@pytest.mark.orrery(nodes=3, hunt="stories/test_nodes_stay-hunt0.yaml")
async def test_nodes_stay_with_the_steps_of_the_story(cluster, drawn_steps):
    await cluster.run_for("4m")
    assert (len(drawn_steps), drawn_steps[0]["at"]) == (1, "1m")
    assert not [one for one in cluster.list("events") if one["reason"] == "NodeNotReady"]


@pytest.mark.orrery(nodes=2, hunt={"runs": 1, "palette": ["crash"], "shrink": 3, "folder": "stories"})
def test_lab_that_fails_without_steps_too(lab):
    lab.run("1m")
    assert lab.state().nodes == 3


@pytest.mark.orrery(hunt="test_again.py")
async def test_no_story(cluster):
    pass
"""

OWN = """
import pytest


async def operator(client):
    while True:
        await client.list("nodes")
        await client.ctx.sleep_us(1_000_000)


CRASH = {"runs": 1, "duration": "4m", "palette": [{"crash": {"actor": "operator"}}], "folder": "stories"}


@pytest.mark.orrery(nodes=1, own_programs=["operator"], hunt=CRASH)
async def test_operator_runs(cluster):
    process = cluster.add_program("operator", operator)
    await cluster.run_for("4m")
    assert process.running


@pytest.mark.orrery(nodes=1, own_programs=["operator"], hunt={"runs": 1, "palette": ["stall"]})
def test_operator_runs_in_a_lab(lab):
    lab.add_program("operator", operator)
    lab.stall(actor="operator", for_="1m")
    lab.run("4m")


@pytest.mark.orrery(nodes=1, own_programs=["operator"], hunt="stories/test_operator_runs-hunt0.yaml")
async def test_operator_stays_away(cluster):
    process = cluster.add_program("operator", operator)
    await cluster.run_for("4m")
    assert not process.running
"""


@pytest.mark.slow
def test_steps_of_a_hunt_hit_the_programs_of_a_test(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(test_own=OWN)
    result = pytester.runpytest_subprocess(
        "-p", "orrery.pytest_plugin", "-p", "no:cacheprovider", timeout=300
    )
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "timeline: [[]{at: 1m, name: crash-?, crash: {actor: operator}}[]]",
            "FAILED *test_operator_runs[[]*",
        ]
    )


@pytest.mark.slow
def test_hunt_repeats_a_test_with_drawn_steps_and_shows_those_of_a_failure(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makepyfile(test_h=HUNTS)
    result = pytester.runpytest_subprocess(
        "-p", "orrery.pytest_plugin", "-p", "no:cacheprovider", timeout=300
    )
    result.assert_outcomes(passed=3, failed=3)
    result.stdout.fnmatch_lines(
        [
            "*Captured drawn steps setup*",
            "timeline:*",
            "*how: power-loss*",
            "*the drawn steps, made smaller*",
            "# *test_nodes_stay[[]hunt0] fails: AssertionError: *",
            '*1m00.000s * scenario  step "fail-1": fail power-loss; nodes node-1',
            "# Made of 2 steps by repeating the test ? times.",
            "timeline: [[]{at: 1m, name: fail-1, fail: {nodes: {name: node-1}, how: power-loss}, for: 1m}[]]",
            'hunt="stories/test_nodes_stay-hunt0.yaml" in the marker repeats the test with these steps',
            "test_nodes_stay[[]hunt0] fails like this test, see stories/test_nodes_stay-hunt0.yaml",
            "FAILED *test_nodes_stay[[]hunt2]*",
        ]
    )
    pytester.makepyfile(test_again=AGAIN)
    again = pytester.runpytest_subprocess(
        "-p", "orrery.pytest_plugin", "-p", "no:cacheprovider", "test_again.py", timeout=300
    )
    again.assert_outcomes(failed=2, errors=1)
    again.stdout.fnmatch_lines_random(
        [
            "test_again.py:8: AssertionError",
            "# It fails without any of the drawn steps.",
            "*test_again.py:5:76: is not valid YAML*",
        ]
    )
