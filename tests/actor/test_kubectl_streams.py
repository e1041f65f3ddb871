"""kubectl itself: exec over WebSocket and SPDY, attach, logs that are followed, port-forward.

Where there is no kubectl this is skipped, loudly.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio

from sim.app.cluster import Cluster
from sim.kernel import NEVER_US
from sim.wire.authority import Authority
from sim.wire.tls import server_context
from tests.actor.test_http import PODS
from tests.actor.test_http_exec import running
from tests.actor.test_http_streams import output

KUBECTL = shutil.which("kubectl")
WAIT_S = 30.0  # real seconds: far above what anything here takes
LOOK_S = 0.01
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default:there is no kubectl")]


class Kubectl:
    """Runs kubectl against one server, which has TLS: without it no token is sent.

    websockets: False for SPDY
    """

    def __init__(self, client: httpx.AsyncClient, *, websockets: bool = True) -> None:
        over = "true" if websockets else "false"
        self.words = [
            KUBECTL or "",
            f"--server={client.base_url}",
            "--token=root",
            "--insecure-skip-tls-verify",
        ]
        self.environment = {
            **os.environ, "KUBECONFIG": os.devnull, "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": over,
            "KUBECTL_PORT_FORWARD_WEBSOCKETS": over,
        }  # fmt: skip

    async def __call__(self, *words: str, text: bytes = b"") -> tuple[int, bytes, bytes]:
        """Exit code, output and errors."""
        with trio.fail_after(WAIT_S):
            done = await trio.run_process(
                [*self.words, *words], stdin=text, capture_stdout=True, capture_stderr=True, check=False,
                env=self.environment,
            )  # fmt: skip
        return done.returncode, done.stdout, done.stderr


@asynccontextmanager
async def encrypted() -> AsyncIterator[tuple[Cluster, httpx.AsyncClient]]:
    if KUBECTL is None:
        warnings.warn("there is no kubectl on this machine: nothing of it is tested", stacklevel=1)
        pytest.skip("no kubectl")
    authority = Authority("ca")
    context = server_context(authority.server(("127.0.0.1",)), authority.pem)
    async with running(context) as (cluster, client):
        yield cluster, client


@pytest.mark.parametrize("websockets", [True, False])
async def test_kubectl_runs_commands_with_input_output_and_exit_codes(websockets: bool) -> None:
    async with encrypted() as (_, client):
        kubectl = Kubectl(client, websockets=websockets)
        code, out, errors = await kubectl("exec", "p", "--", "both")
        assert (code, out) == (3, b"out")
        assert errors == b"errcommand terminated with exit code 3\n"
        data = b"line\n" * 100_000
        assert await kubectl("exec", "-i", "p", "--", "echo", text=data) == (0, data, b"")
        code, out, errors = await kubectl("exec", "p", "--", "nope")
        assert (code, out) == (1, b"")
        assert b"executable file not found in $PATH" in errors


async def test_kubectl_follows_a_log_and_an_attachment_up_to_the_end_of_a_container() -> None:
    async with encrypted() as (cluster, client):
        kubectl, log, answers = Kubectl(client), output(cluster), dict[str, tuple[int, bytes, bytes]]()
        agent = cluster.nodes["node-0"].machine.agent
        log.take("stdout", b"before\n", cluster.kernel.now_us)

        async def ask(*words: str) -> None:
            answers[words[0]] = await kubectl(*words)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "logs", "p", "-f")
            nursery.start_soon(ask, "attach", "p")
            with trio.fail_after(WAIT_S):
                while agent.sessions is None or len(agent.sessions.peers) < 2:  # noqa: ASYNC110
                    await trio.sleep(LOOK_S)
            log.take("stdout", b"after\n", cluster.kernel.now_us)
            await client.delete(f"{PODS}/p")
            cluster.kernel.set_goal(NEVER_US)
        assert answers["logs"][:2] == (0, b"before\nafter\n")
        assert answers["attach"][:2] == (0, b"after\n")


@pytest.mark.parametrize("websockets", [True, False])
async def test_kubectl_copies_a_file_into_a_container_and_back(websockets: bool, tmp_path: Path) -> None:
    async with encrypted() as (cluster, client):
        cluster.nodes["node-0"].machine.interpreter = None  # the known commands, tar among them
        kubectl, there, back = Kubectl(client, websockets=websockets), tmp_path / "there", tmp_path / "back"
        there.write_bytes(bytes(range(256)) * 4000)
        assert (await kubectl("cp", str(there), "p:/tmp/file"))[0] == 0
        assert (await kubectl("cp", "p:/tmp/file", str(back)))[0] == 0
        assert back.read_bytes() == there.read_bytes()


async def test_kubectl_debugs_a_pod_by_an_ephemeral_container() -> None:
    async with encrypted() as (cluster, client):
        cluster.kernel.set_rate(20)
        cluster.kernel.set_goal(NEVER_US)
        code, out, _ = await Kubectl(client)("debug", "-i", "p", "--image=i", "-c", "d", "--", "later")
        assert (code, out) == (0, b"later\n")


@asynccontextmanager
async def forwarding(kubectl: Kubectl, pod: str) -> AsyncIterator[tuple[int, trio.Process]]:
    """kubectl port-forward of port 80: the local port, and the process."""
    process = await trio.lowlevel.open_process(
        [*kubectl.words, "port-forward", pod, ":80"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=kubectl.environment,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    first = b""
    try:
        with trio.fail_after(WAIT_S):
            while b"\n" not in first:
                first += await process.stdout.receive_some()
            yield int(first.split(b" -> ")[0].rpartition(b":")[2]), process
    finally:
        process.kill()
        await process.wait()
        for pipe in (process.stdout, process.stderr):
            await pipe.aclose()


@pytest.mark.parametrize("websockets", [True, False])
async def test_kubectl_forwards_a_port_and_shows_a_refused_connection(websockets: bool) -> None:
    async with encrypted() as (_, client):
        async with forwarding(Kubectl(client, websockets=websockets), "p") as (port, process):
            errors = b""
            assert process.stderr is not None
            async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                await stream.send_all(b"GET / HTTP/1.0\r\n\r\n")
                while b"connection refused" not in errors:
                    errors += await process.stderr.receive_some()
        assert b"error forwarding port 80 to pod" in errors


@pytest.mark.parametrize("websockets", [True, False])
async def test_kubectl_forwards_requests_to_a_web_server(websockets: bool) -> None:
    async with encrypted() as (cluster, client):
        cluster.nodes["node-0"].machine.interpreter = None  # the known programs
        spec = {"containers": [{"name": "c", "image": "nginx:1.23"}]}
        await client.post(PODS, json={"metadata": {"name": "web"}, "spec": spec})
        await cluster.run_until("60s")
        cluster.kernel.set_rate(10)
        cluster.kernel.set_goal(NEVER_US)
        async with forwarding(Kubectl(client, websockets=websockets), "web") as (port, _):
            for _ in range(3):
                async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as browser:
                    found = await browser.get("/")
                    assert (found.status_code, found.headers["server"]) == (200, "nginx/1.23.1")
                    assert (await browser.get("/none")).status_code == 404
