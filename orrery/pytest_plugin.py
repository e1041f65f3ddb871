"""The pytest plugin: clusters as fixtures, and a marker that repeats a test under seeds.

    @pytest.mark.orrery(nodes=6)
    @pytest.mark.seeds(5)
    async def test_pods_survive(cluster):
        await cluster.run_for("2m")

    def test_operator(served_cluster):           # a program outside, at a pace
        subprocess.run(["go", "test", "./..."], env={**os.environ, "KUBECONFIG": served_cluster.kubeconfig})

An async test of these fixtures runs under trio, without `trio_mode` and without pytest-trio; with
them, pytest-trio runs it.  The cluster runs while the body of the test does, not in other fixtures.

Holds: a test without these fixtures is not touched; nothing of Orrery is imported before a test uses
them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial, wraps
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from sim.dataclass import dataclass

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from sim import Cluster, Lab

DEFAULTS = {"nodes": 3, "naming": "kubernetes", "boot": "10s"}
PACE = 20.0  # virtual seconds a second, for programs outside
SERVING = ("pace", "wait_for_client", "reaction")  # parameters of serving
NOT_OF_CLUSTERS = (*SERVING, "hunt", "own_programs")
HUNT_RUNS, SHRINK_RUNS = 20, 30
TEXT_MAX = 200  # of a failure in a story
FOREVER = "100000h"
_MARKERS = (
    "orrery(nodes=3, naming='kubernetes', boot='10s', pace=20, profile='envtest', wait_for_client=True, "
    "reaction=0.2, hunt=20, ...): parameters of the cluster, of serving it, or of the lab; hunt: number of tests "
    "with drawn faults, the section `hunt` of a scenario with `runs`, or a file of steps; own_programs: names of "
    "programs that the test adds, which faults may hit",
    "seeds(count_or_list): run a test that uses a cluster, a lab or `seed` under several seeds",
)


class Failure(NamedTuple):
    """How a test of a hunt fails.  line: of its file; 0 if none is in the traceback"""

    kind: str
    line: int
    text: str


class Tried(NamedTuple):
    """What replaces the drawn steps of a test while it is repeated.

    trace: where the trace of its cluster is written, if it is needed
    """

    steps: Sequence[Mapping[str, Any]]
    trace: Path | None = None


TRIED = pytest.StashKey[Tried]()
FAILURE = pytest.StashKey[Failure | None]()
_Opens = list["AbstractAsyncContextManager[Any]"]
# What is to be open while the body of a test runs.
_opens = pytest.StashKey[_Opens]()


@dataclass(slots=True)
class Served:
    """A cluster that real clients reach.

    kubeconfig: path of the client configuration of the administrator
    url: "" before the body of an async test
    wait_for_client: number of watches until which virtual time rests
    reaction: real seconds for which virtual time rests after each request and each event
    """

    cluster: Cluster
    kubeconfig: str
    pace: float
    wait_for_client: int = 0
    reaction: float = 0
    url: str = ""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Served]:
        """The cluster, running and served."""
        from sim import served

        more: dict[str, Any] = {"wait_for_client": self.wait_for_client, "reaction": self.reaction}
        config = Path(self.kubeconfig)
        async with self.cluster, served(self.cluster, config, pace=self.pace, **more) as self.url:
            yield self

    @asynccontextmanager
    async def going_on(self) -> AsyncIterator[Served]:
        """As `opened`; virtual time passes by itself."""
        import trio

        async with self.opened(), trio.open_nursery() as nursery:
            nursery.start_soon(self.cluster.run_until, FOREVER)
            yield self
            nursery.cancel_scope.cancel()


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers."""
    for line in _MARKERS:
        config.addinivalue_line("markers", line)


# --- fixtures -------------------------------------------------------------------------------------


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of the test's cluster or lab: that of the marker `seeds`, else of `orrery`, else 0."""
    given: int = request.param if hasattr(request, "param") else _parameters(request.node).get("seed", 0)
    return given


@pytest.fixture
def drawn_steps(request: pytest.FixtureRequest) -> list[dict[str, Any]]:
    """The steps that occur in the test's cluster or lab by the marker's `hunt`; none without it."""
    if not hasattr(request, "param"):
        return []
    if (tried := request.node.stash.get(TRIED, None)) is not None:
        return [dict(step) for step in tried.steps]
    from sim.scenario.writing import scenario_text

    steps = _document(request.node, request.param)["spec"]["timeline"]
    request.node.add_report_section("setup", "drawn steps", scenario_text({"timeline": steps}))
    return list(steps)


def _document(item: pytest.Item, number: int) -> dict[str, Any]:
    """A scenario with the cluster of a test and its drawn steps."""
    from sim.app.hunt.schedules import drawn_document

    given = _parameters(item)
    if isinstance(given["hunt"], str | Path):
        return {"spec": {"timeline": _steps_of(item.config.rootpath / given["hunt"])}}
    group = {"count": given["nodes"], **({"zones": [*given["zones"]]} if "zones" in given else {})}
    section = {"naming": given["naming"], "boot": str(given["boot"]), **given.get("cluster", {})}
    if given["nodes"]:
        section["nodes"] = [group]
    if "own_programs" in given:
        section["ownPrograms"] = list(given["own_programs"])
    return drawn_document(number, _hunt(given["hunt"]).section, section)


def _steps_of(file: Path) -> list[dict[str, Any]]:
    """The steps of a story.  Raises InputError."""
    from sim.errors import InputError
    from sim.scenario.read.source import read_documents

    documents = read_documents(file)
    steps = documents[0].value.get("timeline") if documents and isinstance(documents[0].value, dict) else None
    if not isinstance(steps, list):
        raise InputError("holds no timeline of steps", str(file), "name the file of a story of this test")
    return steps


class _Hunt(NamedTuple):
    """runs: number of tests; shrink: of repetitions of one that fails; folder: of the stories"""

    runs: int
    shrink: int
    folder: str
    section: dict[str, Any]


def _hunt(given: Any) -> _Hunt:
    """The parameters of a hunt."""
    if isinstance(given, str | Path):
        return _Hunt(1, 0, "", {})
    section: dict[str, Any] = dict(given) if isinstance(given, Mapping) else {"runs": given}
    runs, shrinks = section.pop("runs", HUNT_RUNS), section.pop("shrink", SHRINK_RUNS)
    for count, least in ((runs, 1), (shrinks, 0)):
        if not isinstance(count, int) or isinstance(count, bool) or count < least:
            raise pytest.UsageError(f"hunt takes a number of tests, or the section `hunt`; {count!r} is none")
    return _Hunt(runs, shrinks, str(section.pop("folder", "")), section)


@pytest.fixture
def cluster(request: pytest.FixtureRequest, seed: int, drawn_steps: list[dict[str, Any]]) -> Cluster:
    """A cluster that runs while the body of an async test does; only `run_*` advance its time."""
    made = _cluster(request, seed)
    made.do.perform_timeline(drawn_steps)
    _open_for(request, made)
    return made


@pytest.fixture
def served_cluster(
    request: pytest.FixtureRequest, seed: int, drawn_steps: list[dict[str, Any]], tmp_path: Path
) -> Iterator[Served]:
    """A cluster behind HTTPS: `url`, `kubeconfig`, `cluster`.

    In an async test `run_*` of the cluster advance its time; in any other test it passes by itself,
    at the pace of the marker, from the first watch of a client on with `wait_for_client=True`.
    """
    given = {"pace": PACE, "wait_for_client": 0, "reaction": 0.0, **_parameters(request.node)}
    serving = (float(given["pace"]), int(given["wait_for_client"]), float(given["reaction"]))
    made = Served(_cluster(request, seed), str(tmp_path / "kubeconfig"), *serving)
    made.cluster.do.perform_timeline(drawn_steps)
    if iscoroutinefunction(getattr(request.node, "obj", None)):
        _open_for(request, made.opened())
        yield made
        return
    from sim.app.lab.portal import Portal

    portal = Portal(made.going_on, lambda served: served.cluster.kernel.halt(), "served cluster")
    try:
        yield made
    finally:
        portal.close()


@pytest.fixture
def lab(request: pytest.FixtureRequest, seed: int, drawn_steps: list[dict[str, Any]]) -> Iterator[Lab]:
    """A lab for tests that are not async."""
    from sim import Lab

    parameters = _parameters(request.node)
    if "own_programs" in parameters:
        parameters["cluster"] = {
            "ownPrograms": [*parameters["own_programs"]],
            **parameters.get("cluster", {}),
        }
    for name in NOT_OF_CLUSTERS:
        parameters.pop(name, None)
    if "scenario" in parameters:
        parameters = {key: value for key, value in parameters.items() if key not in DEFAULTS}
    with Lab(**{**parameters, "seed": seed}) as made:
        made.perform_timeline(drawn_steps)
        yield made
        tried = request.node.stash.get(TRIED, None)
        if tried is not None and tried.trace is not None:
            made.save_trace(tried.trace)


def _parameters(item: pytest.Item) -> dict[str, Any]:
    """The parameters of the markers of a test, its class and its module; the nearest ones count."""
    found: dict[str, Any] = dict(DEFAULTS)
    for marker in reversed([*item.iter_markers("orrery")]):
        if marker.args:
            raise pytest.UsageError("the parameters of the marker orrery have names: orrery(nodes=3)")
        found.update(marker.kwargs)
        if "profile" in marker.kwargs and "nodes" not in marker.kwargs:
            found["nodes"] = 0  # a profile has none of its own
    return found


def _cluster(request: pytest.FixtureRequest, seed: int) -> Cluster:
    from sim import Cluster

    parameters = _parameters(request.node)
    own = parameters.get("own_programs", ())
    for name in NOT_OF_CLUSTERS:
        parameters.pop(name, None)
    tried = request.node.stash.get(TRIED, None)
    trace = {} if tried is None or tried.trace is None else {"trace": tried.trace}
    made = Cluster(**{**parameters, **trace, "seed": seed})
    made.name_programs(*own)
    return made


def _open_for(request: pytest.FixtureRequest, what: AbstractAsyncContextManager[Any]) -> None:
    """Note what is to be open while the body of the test runs."""
    if not iscoroutinefunction(getattr(request.node, "obj", None)):
        pytest.fail("a test that uses the fixture `cluster` is async; `lab` is for others", pytrace=False)
    request.node.stash.setdefault(_opens, []).append(what)


# --- how tests run --------------------------------------------------------------------------------


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat a test under the seeds of its marker, and with the drawn steps of each of a hunt."""
    hunts = [one.kwargs["hunt"] for one in metafunc.definition.iter_markers("orrery") if "hunt" in one.kwargs]
    if hunts and "drawn_steps" in metafunc.fixturenames:
        runs = _hunt(hunts[0]).runs
        metafunc.parametrize("drawn_steps", range(runs), indirect=True, ids=[f"hunt{n}" for n in range(runs)])
    marker = metafunc.definition.get_closest_marker("seeds")
    if marker is None:
        return
    if "seed" not in metafunc.fixturenames:
        raise pytest.UsageError(
            "the marker seeds goes with the fixtures cluster, served_cluster, lab or seed"
        )
    given = marker.args[0] if len(marker.args) == 1 else None
    seeds: Sequence[int] = range(given) if isinstance(given, int) else given or ()
    if not seeds:
        raise pytest.UsageError("the marker seeds takes a number or a list: seeds(5), seeds([1, 7])")
    metafunc.parametrize("seed", seeds, indirect=True, ids=[f"seed{one}" for one in seeds])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> object | None:
    """Run a test of a hunt; one that fails is repeated with simpler steps for its report."""
    drawn = _drawn(item)
    hunt = None if drawn is None else _hunt(_parameters(item)["hunt"])
    if hunt is None or drawn is None or not hunt.shrink or not isinstance(item, pytest.Function):
        return None
    from _pytest.runner import runtestprotocol

    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    failure = item.stash.get(FAILURE, None)
    failed = [one for one in reports if one.when == "call" and one.failed]
    if failed and failure is not None:
        from orrery.shrunk_tests import add_story

        cache = getattr(item.config, "cache", None)
        usual = item.config.rootpath / "out" if cache is None else cache.mkdir("orrery")
        folder = item.config.rootpath / hunt.folder if hunt.folder else usual
        add_story(item, failed[0], failure, _document(item, drawn), runs=hunt.shrink, folder=folder)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note how a test of a hunt fails."""
    if call.when == "call" and call.excinfo is not None and _drawn(item) is not None:
        item.stash[FAILURE] = _failure_of(item, call.excinfo.value)
    return (yield)


def _drawn(item: pytest.Item) -> int | None:
    """The number of a test in its hunt; None for other tests."""
    number: int | None = getattr(getattr(item, "callspec", None), "params", {}).get("drawn_steps")
    return number


def _failure_of(item: pytest.Item, error: BaseException) -> Failure:
    """The failure of a test by an exception; of a group, by the first in it."""
    from sim.errors import first_of

    error = first_of(error)
    line, at = 0, error.__traceback__
    while at is not None:
        if at.tb_frame.f_code.co_filename == str(item.path):
            line = at.tb_lineno
        at = at.tb_next
    text = f"{type(error).__name__}: {error}".partition("\n")[0]
    return Failure(type(error).__name__, line, text[:TEXT_MAX])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Open what the test uses; any plugin may run its body."""
    opens = item.stash.get(_opens, [])
    if not opens or not isinstance(item, pytest.Function):
        return (yield)
    body, item.obj = item.obj, _with_open(item.obj, opens)
    try:
        return (yield)
    finally:
        item.obj = body
        opens.clear()


def _with_open(body: Callable[..., Any], opens: _Opens) -> Callable[..., Any]:
    @wraps(body)
    async def opened(*args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        async with AsyncExitStack() as stack:
            for one in opens:
                await stack.enter_async_context(one)
            await body(*args, **kwargs)

    return opened


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object | None:
    """Run an async test of these fixtures under trio, unless another plugin has taken it."""
    if not pyfuncitem.stash.get(_opens, []) or not iscoroutinefunction(pyfuncitem.obj):
        return None
    import trio

    names = pyfuncitem._fixtureinfo.argnames
    trio.run(partial(pyfuncitem.obj, **{name: pyfuncitem.funcargs[name] for name in names}))
    return True
