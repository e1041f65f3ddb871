"""The end of an API server that runs alone."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import httpx
import pytest

from tests.cluster.daemons.running import api_server, client_of, config_of, until

MAPS = "/api/v1/namespaces/default/configmaps"
READY = "/readyz"


class Watch:
    """A watch in a thread.  ended: "" while it runs, then how it has ended"""

    def __init__(self, client: httpx.Client) -> None:
        self.begun, self.ended = False, ""
        self._client = client

    def run(self) -> None:
        try:
            with self._client.stream("GET", MAPS, params={"watch": "1"}) as answer:
                self.begun = True
                for _ in answer.iter_bytes():
                    pass
            self.ended = "in order"
        except httpx.HTTPError as error:
            self.ended = repr(error)


@contextmanager
def watching(config: Path, *, http2: bool) -> Iterator[Watch]:
    with client_of(config, http2=http2) as client:
        watch = Watch(client)
        thread = Thread(target=watch.run)
        thread.start()
        yield watch
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("http2", [False, True])
def test_watches_end_in_order_and_late_requests_are_refused(tmp_path: Path, http2: bool) -> None:
    log = tmp_path / "api-server.log"
    with api_server(tmp_path, "--shutdown-send-retry-after", "-v=3") as (server, url):
        config = config_of(tmp_path, url, "admin")
        with watching(config, http2=http2) as watch, client_of(config) as client:
            assert client.get(READY).status_code == 200
            until(lambda: watch.begun, log)
            server.send_signal(signal.SIGTERM)
            until(lambda: client.get(READY).status_code != 200, log)
            until(lambda: client.get(MAPS).status_code == 429, log)
            refused = client.get(MAPS)
            assert (refused.headers["Retry-After"], refused.headers["Connection"]) == ("5", "close")
            assert server.wait(30) == 0
        assert watch.ended == "in order"
    assert f'"HTTP" verb="LIST" URI="{MAPS}" latency="' in log.read_text()


@pytest.mark.slow
def test_a_server_serves_during_its_delay_and_accepts_nothing_after_it(tmp_path: Path) -> None:
    log = tmp_path / "api-server.log"
    with api_server(tmp_path, "--shutdown-delay-duration=3s") as (server, url):
        config = config_of(tmp_path, url, "admin")
        with watching(config, http2=False) as watch, client_of(config) as client:
            until(lambda: watch.begun, log)
            server.send_signal(signal.SIGTERM)
            until(lambda: client.get(READY).status_code == 500, log)
            assert client.post(MAPS, json={"metadata": {"name": "late"}}).status_code == 201

            def is_refused() -> bool:
                try:
                    httpx.get(url + READY, verify=False)
                except httpx.ConnectError:
                    return True
                return False

            until(is_refused, log)
            # The watch holds the process up; the second signal does not wait for it.
            assert server.poll() is None
            server.send_signal(signal.SIGTERM)
            assert server.wait(30) == 1
        assert "without sending complete message body" in watch.ended
