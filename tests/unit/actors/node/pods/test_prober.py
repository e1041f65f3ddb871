"""The output of failed probes."""

from typing import Any

import pytest

from actors.node.pods.prober import output_of

PORTS = {"ports": [{"name": "web", "containerPort": 8080}, {"containerPort": 9090}]}


@pytest.mark.parametrize(("probe", "text"), [
    ({"httpGet": {"port": 80}}, "HTTP probe failed with statuscode: 500"),
    ({"tcpSocket": {"port": 80}}, "dial tcp 10.0.0.2:80: connect: connection refused"),
    ({"tcpSocket": {"port": "web"}}, "dial tcp 10.0.0.2:8080: connect: connection refused"),
    ({"tcpSocket": {"port": 80, "host": "db"}}, "dial tcp db:80: connect: connection refused"),
    ({"grpc": {"port": 80}}, 'service unhealthy (responded with "NOT_SERVING")'),
    ({"exec": {"command": ["ls"]}}, "command failed"),
])  # fmt: skip
def test_output_of_failed_probe_depends_on_its_handler(probe: dict[str, Any], text: str) -> None:
    assert output_of(probe, PORTS, "10.0.0.2") == text
