"""`orrery serve` waits: for its nodes before it writes configurations, for clients, for reactions."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import trio
import yaml

from sim.app.cli.main import main
from sim.app.cluster import Cluster
from sim.app.serving import registration
from sim.app.serving.registration import wait_for_nodes
from sim.kernel import NEVER_US

BOOT = """
apiVersion: orrery.dev/v1
kind: Scenario
metadata: {name: boot}
spec:
  duration: 1h
  cluster: {naming: kubernetes, boot: 40s, nodes: [{count: 2}]}
"""


class Signals:
    """Signals of a server.  sent: those that have come"""

    def __init__(self, *sent: int) -> None:
        self._sent = list(sent)

    def __aiter__(self) -> AsyncIterator[int]:
        return self

    async def __anext__(self) -> int:
        if not self._sent:
            await trio.sleep_forever()
        return self._sent.pop()


async def test_wait_ends_when_all_nodes_are_registered() -> None:
    async with Cluster(nodes=3, boot="30s") as cluster:
        cluster.kernel.set_goal(NEVER_US)
        assert await wait_for_nodes(cluster, Signals())
        assert cluster.counts()["nodes"] == 3
        assert await wait_for_nodes(cluster, Signals())  # without a wait


async def test_wait_for_nodes_needs_no_api_server() -> None:
    async with Cluster(nodes=1) as cluster:
        await cluster.run_until("60s")
        cluster.supervisor["apiserver-0"].crash()
        assert await wait_for_nodes(cluster, Signals())


async def test_wait_for_nodes_ends_with_a_signal() -> None:
    async with Cluster(nodes=1) as cluster:  # virtual time does not pass
        assert not await wait_for_nodes(cluster, Signals(signal.SIGINT))


async def test_wait_for_nodes_that_never_register_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "REGISTERED_S", 0.0)
    async with Cluster(nodes=1) as cluster:
        assert await wait_for_nodes(cluster, Signals())
        assert cluster.counts()["nodes"] == 0


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A server of the scenario above."""
    (folder / "boot.yaml").write_text(BOOT)
    command = [sys.executable, "-m", "sim.app.cli.main", "serve", "boot.yaml", "--port", "0"]
    command += ["--client-config", "config", *arguments]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield server
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(60) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "nodes"),
    [(("--pace", "1000"), 2), (("--pace", "1", "--wait-for-client", "1", "--reaction", "200ms"), 0)],
)
def test_configuration_appears_with_the_nodes_or_before_a_client_is_waited_for(
    tmp_path: Path, arguments: tuple[str, ...], nodes: int
) -> None:
    with serving(tmp_path, *arguments) as server:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        token = yaml.safe_load((tmp_path / "config").read_text())["users"][0]["user"]["token"]
        headers = {"Authorization": f"Bearer {token}"}
        found = httpx.get(f"{url}/api/v1/nodes", headers=headers, verify=False, timeout=60)
        assert len(found.json()["items"]) == nodes


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--wait-for-client", "-1"], "is no number of watches"),
        (["--reaction", "5"], "is no duration from 0s to 60s"),
        (["--reaction", "61s"], "is no duration from 0s to 60s"),
    ],
)
def test_wait_that_is_none_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["serve", *arguments])
    assert says in capsys.readouterr().err
