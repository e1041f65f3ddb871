"""The option `node-ip` of the node agent: one address, or one of each family.

Turns the option's value into addresses, by `node_ips`, and says what is wrong with them, by
`node_can_have`.

Mirrors  kubernetes v1.25 cmd/kubelet/app/server.go: RunKubelet;
         pkg/kubelet/kubelet_node_status.go: validateNodeIP.
Differs  a text that is no address is refused, which upstream leaves out with a line in its log; so
         is an address that no node can have, with which upstream's agent would run and report no
         addresses.  A single 0.0.0.0 or :: chooses the family of the address, as upstream.
"""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address

from sim.options.base import strings

ANY_V4, ANY_V6 = "0.0.0.0", "::"
ANY_ADDRESS = ((ANY_V4,), (ANY_V6,))


def node_ips(value: object) -> tuple[str, ...]:
    """The addresses of a text with commas, each in its usual form."""
    try:
        return tuple(str(_address(text.strip())) for text in strings(value))
    except ValueError:
        raise ValueError("an IP address, or one of each family such as 10.0.0.1,2001:db8::1") from None


def _address(text: str) -> IPv4Address | IPv6Address:
    """An address as Go reads it: leading zeros are accepted, zones are not, and an IPv4 address may
    be written as an IPv6 address.
    """
    if "%" in text:
        raise ValueError(text)
    if re.fullmatch(r"[0-9]+(\.[0-9]+){3}", text):
        text = ".".join(part.lstrip("0") or "0" for part in text.split("."))
    address = ip_address(text)
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def node_can_have(value: tuple[str, ...]) -> str | None:
    """Check of a node's addresses, in upstream's order."""
    if value in ANY_ADDRESS:
        return None
    addresses = [ip_address(text) for text in value]
    given = ",".join(value)
    if len(addresses) > 2 or (len(addresses) == 2 and addresses[0].version == addresses[1].version):
        return f'bad --node-ip "{given}"; must contain either a single IP or a dual-stack pair of IPs'
    if len(addresses) == 2 and any(address.is_unspecified for address in addresses):
        return f"dual-stack --node-ip \"{given}\" cannot include '0.0.0.0' or '::'"
    for name, address in zip(("nodeIP", "secondaryNodeIP"), addresses, strict=False):
        kinds = (
            (address.is_loopback, "loopback address"),
            (address.is_multicast, "a multicast address"),
            (address.is_link_local, "a link-local unicast address"),
            (address.is_unspecified, "an all zeros address"),
        )
        if kind := next((kind for holds, kind in kinds if holds), ""):
            return f"failed to validate {name}: nodeIP can't be {kind}"
    return None
