"""The pages of a secure port."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

from sim.app.daemons.secure.configz import configz_of
from sim.app.daemons.secure.pages import ComponentPages, Shown
from sim.ident import NAMES
from sim.kernel import Kernel
from sim.options.controllers.manager import parse_controller_manager
from sim.options.groups.secure import SecureFlags
from sim.wire.exchange import Exchange

NAMED, LOCK = NAMES["kubernetes"], "kube-controller-manager"


class Pages:
    """The pages of a controller manager.  given: its options"""

    def __init__(
        self, lock: str = LOCK, *, profiling: bool = True, pods: list[Any] | None = None, **given: object
    ) -> None:
        values = {name.replace("_", "-"): value for name, value in given.items()}
        options = parse_controller_manager(values, names=NAMED)
        self.levels: list[int] = []
        self.kernel = Kernel(1)
        shown = Shown(
            "controller-manager",
            lock,
            lambda: ("deployment", "job"),
            options,
            configz_of(NAMED, "controller-manager", options, SecureFlags()),
            profiling,
            self.levels.append,
            None if pods is None else lambda: pods,
        )
        self._pages = ComponentPages(NAMED, self.kernel, shown)

    def candidate(self, lock: str, *, healthy: bool, leads: bool) -> None:
        self.kernel.candidates[lock, "process"] = lambda: (healthy, leads)

    def get(self, path: str, method: str = "GET", body: bytes = b"") -> tuple[int, str]:
        path, _, query = path.partition("?")
        found = Exchange(
            {"method": method, "raw_path": path.encode(), "query_string": query.encode(), "headers": []}
        )
        found.body.take(body, False)
        answer = trio.run(self._pages.answer, found)
        assert isinstance(answer.body, bytes)
        return answer.code, answer.body.decode()


@pytest.mark.parametrize(
    ("healthy", "leads", "code", "listed"),
    [
        (True, False, 200, ["[+]leaderElection ok"]),
        (True, True, 200, ["[+]leaderElection ok", "[+]deployment ok", "[+]job ok"]),
        (
            False,
            True,
            500,
            ["[-]leaderElection failed: reason withheld", "[+]deployment ok", "[+]job ok"],
        ),
    ],
)
@pytest.mark.parametrize("page", ["healthz", "livez", "readyz"])
def test_health_is_that_of_the_election_and_of_what_runs(
    page: str, healthy: bool, leads: bool, code: int, listed: list[str]
) -> None:
    pages = Pages()
    pages.candidate(LOCK, healthy=healthy, leads=leads)
    pages.candidate("migration", healthy=False, leads=True)  # upstream checks the main lock alone
    found, text = pages.get(f"/{page}?verbose")
    assert (found, text.splitlines()[:-1]) == (code, listed)
    assert pages.get(f"/{page}/leaderElection")[0] == code
    assert pages.get(f"/{page}/nothing")[0] == 404


def test_a_process_without_an_election_is_healthy() -> None:
    assert Pages(lock="").get("/healthz") == (200, "ok")


@pytest.mark.parametrize(("profiling", "codes"), [(True, (200, 406, 200)), (False, (404, 404, 404))])
def test_profiles_and_verbosity_are_served_by_option(profiling: bool, codes: tuple[int, ...]) -> None:
    pages = Pages(profiling=profiling)
    found = (
        pages.get("/debug/pprof/")[0],
        pages.get("/debug/flags/v")[0],
        pages.get("/debug/flags/v", "PUT", b"5")[0],
    )
    assert (found, pages.levels) == (codes, [5] if profiling else [])


@pytest.mark.parametrize(("disabled", "shown"), [((), True), (("leader_election_master_status",), False)])
def test_metrics_are_restricted_by_option(disabled: tuple[str, ...], shown: bool) -> None:
    pages = Pages(disabled_metrics=",".join(disabled))
    pages.candidate(LOCK, healthy=True, leads=True)
    line = f'leader_election_master_status{{name="{LOCK}"}} 1'
    assert (line in pages.get("/metrics")[1].splitlines()) is shown


@pytest.mark.parametrize("period", ["7s", "1m0s"])
def test_the_configuration_has_the_options_as_they_are(period: str) -> None:
    found: Any = json.loads(Pages(node_monitor_period=period, controllers="*,-job").get("/configz")[1])
    (group,) = found
    assert group == "kubecontrollermanager.config.k8s.io"
    assert found[group]["KubeCloudShared"]["NodeMonitorPeriod"] == period
    assert found[group]["Generic"]["Controllers"] == ["*", "-job"]
    assert found[group]["Generic"]["LeaderElection"]["LeaseDuration"] == "15s"


def test_requests_of_pods_have_a_page_of_the_scheduler() -> None:
    resources = {"requests": {"cpu": "500m"}}
    pod = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": resources}]},
        "status": {"phase": "Running"},
    }
    path = "/metrics/resources"
    assert Pages().get(path)[0] == 404
    code, text = Pages(pods=[pod]).get(path)
    labels = 'namespace="default",node="n",pod="p",priority="",resource="cpu",scheduler="",unit="cores"'
    values = [line for line in text.splitlines() if not line.startswith("#")]
    assert (code, values) == (200, [f"kube_pod_resource_request{{{labels}}} 0.5"])
