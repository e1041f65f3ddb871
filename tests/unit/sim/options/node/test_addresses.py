"""The option `node-ip` of the node agent: one address, or one of each family."""

import pytest

from sim.errors import InputError
from sim.options.node.agent import parse_node_agent

PAIR = "10.0.0.1,2001:db8::1"
FORM = "must contain either a single IP or a dual-stack pair of IPs"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("", ()),
        ("10.0.0.1", ("10.0.0.1",)),
        ("010.0.0.001", ("10.0.0.1",)),
        ("2001:DB8:0::1", ("2001:db8::1",)),
        ("::ffff:10.0.0.1", ("10.0.0.1",)),
        (PAIR, ("10.0.0.1", "2001:db8::1")),
        ("2001:db8::1 , 10.0.0.1,", ("2001:db8::1", "10.0.0.1")),
        (["10.0.0.1", " fd00::2"], ("10.0.0.1", "fd00::2")),
    ],
)
def test_node_addresses_are_read_in_their_order(given: object, wanted: tuple[str, ...]) -> None:
    assert parse_node_agent({"node-ip": given}).node_ips == wanted


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("10.0.0.1,banana", "wanted an IP address, or one of each family"),
        ("fd00::1%eth0", "wanted an IP address, or one of each family"),
        ("10.0.0.1,10.0.0.2", f'bad --node-ip "10.0.0.1,10.0.0.2"; {FORM}'),
        ("fd00::1,fd00::2", f'bad --node-ip "fd00::1,fd00::2"; {FORM}'),
        ("10.0.0.1,::ffff:10.0.0.2", f'bad --node-ip "10.0.0.1,10.0.0.2"; {FORM}'),
        (f"{PAIR},fd00::2", f'bad --node-ip "{PAIR},fd00::2"; {FORM}'),
        ("10.0.0.1,::", "dual-stack --node-ip \"10.0.0.1,::\" cannot include '0.0.0.0' or '::'"),
        ("::1", "failed to validate nodeIP: nodeIP can't be loopback address"),
        ("ff02::1", "failed to validate nodeIP: nodeIP can't be a multicast address"),
        (
            "10.0.0.1,fe80::1",
            "failed to validate secondaryNodeIP: nodeIP can't be a link-local unicast address",
        ),
    ],
)
def test_node_addresses_that_no_node_can_have_are_refused(given: str, text: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_node_agent({"node-ip": given})
    assert text in str(refused.value)


def test_cloud_provider_allows_one_node_address() -> None:
    cloud = {"cloud-provider": "orrery"}
    assert parse_node_agent({**cloud, "node-ip": "fd00::1"}).node_ips == ("fd00::1",)
    with pytest.raises(InputError) as refused:
        parse_node_agent({**cloud, "node-ip": PAIR})
    assert f'dual-stack --node-ip "{PAIR}" not supported when using a cloud provider' in str(refused.value)
