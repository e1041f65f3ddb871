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

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial, wraps
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sim.dataclass import dataclass

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from sim import Cluster, Lab

DEFAULTS = {"nodes": 3, "naming": "kubernetes", "boot": "10s"}
PACE = 20.0  # virtual seconds a second, for programs outside
SERVING = ("pace", "wait_for_client", "reaction")  # parameters of serving
FOREVER = "100000h"
_MARKERS = (
    "orrery(nodes=3, naming='kubernetes', boot='10s', pace=20, profile='envtest', wait_for_client=True, "
    "reaction=0.2, ...): parameters of the cluster, of serving it, or of the lab",
    "seeds(count_or_list): run a test that uses a cluster, a lab or `seed` under several seeds",
)
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
    given: int = request.param if hasattr(request, "param") else _parameters(request).get("seed", 0)
    return given


@pytest.fixture
def cluster(request: pytest.FixtureRequest, seed: int) -> Cluster:
    """A cluster that runs while the body of an async test does; only `run_*` advance its time."""
    made = _cluster(request, seed)
    _open_for(request, made)
    return made


@pytest.fixture
def served_cluster(request: pytest.FixtureRequest, seed: int, tmp_path: Path) -> Iterator[Served]:
    """A cluster behind HTTPS: `url`, `kubeconfig`, `cluster`.

    In an async test `run_*` of the cluster advance its time; in any other test it passes by itself,
    at the pace of the marker, from the first watch of a client on with `wait_for_client=True`.
    """
    given = {"pace": PACE, "wait_for_client": 0, "reaction": 0.0, **_parameters(request)}
    serving = (float(given["pace"]), int(given["wait_for_client"]), float(given["reaction"]))
    made = Served(_cluster(request, seed), str(tmp_path / "kubeconfig"), *serving)
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
def lab(request: pytest.FixtureRequest, seed: int) -> Iterator[Lab]:
    """A lab for tests that are not async."""
    from sim import Lab

    parameters = _parameters(request)
    for name in SERVING:
        parameters.pop(name, None)
    if "scenario" in parameters:
        parameters = {key: value for key, value in parameters.items() if key not in DEFAULTS}
    with Lab(**{**parameters, "seed": seed}) as made:
        yield made


def _parameters(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The parameters of the markers of a test, its class and its module; the nearest ones count."""
    found: dict[str, Any] = dict(DEFAULTS)
    for marker in reversed([*request.node.iter_markers("orrery")]):
        if marker.args:
            raise pytest.UsageError("the parameters of the marker orrery have names: orrery(nodes=3)")
        found.update(marker.kwargs)
        if "profile" in marker.kwargs and "nodes" not in marker.kwargs:
            found["nodes"] = 0  # a profile has none of its own
    return found


def _cluster(request: pytest.FixtureRequest, seed: int) -> Cluster:
    from sim import Cluster

    parameters = _parameters(request)
    for name in SERVING:
        parameters.pop(name, None)
    return Cluster(**{**parameters, "seed": seed})


def _open_for(request: pytest.FixtureRequest, what: AbstractAsyncContextManager[Any]) -> None:
    """Note what is to be open while the body of the test runs."""
    if not iscoroutinefunction(getattr(request.node, "obj", None)):
        pytest.fail("a test that uses the fixture `cluster` is async; `lab` is for others", pytrace=False)
    request.node.stash.setdefault(_opens, []).append(what)


# --- how tests run --------------------------------------------------------------------------------


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat a test under the seeds of its marker."""
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
