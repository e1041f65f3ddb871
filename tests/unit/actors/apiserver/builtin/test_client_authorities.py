"""The data by which other servers authenticate clients."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import cache

from actors.apiserver.builtin.client_authorities import CLIENT_CA, LISTS, PROXY_CA, combined, config_map
from sim.ident import NAMES
from sim.units import SECOND
from sim.wire.authority import AUTHORITY_VALID, Authority

N = NAMES["kubernetes"]
NOW = datetime(2024, 1, 1, tzinfo=UTC)
NOW_US = int(NOW.timestamp()) * SECOND


@cache
def _certificate(number: int) -> str:
    """A certificate that is valid from NOW_US on."""
    return Authority(f"authority {number}", NOW).pem.decode()


def test_authorities_of_both_are_kept_in_order_and_once():
    first, second, third = map(_certificate, range(3))
    data = combined({CLIENT_CA: first + second}, {CLIENT_CA: second + third}, NOW_US)
    assert data == {CLIENT_CA: first + second + third}


def test_expired_authority_of_another_server_is_dropped_after_five_minutes():
    ends_us = NOW_US + int(AUTHORITY_VALID.total_seconds()) * SECOND
    data = {CLIENT_CA: _certificate(0)}
    assert combined(data, {}, ends_us + 299 * SECOND) == data
    assert combined(data, {}, ends_us + 301 * SECOND) == {}


def test_own_authority_is_published_though_it_has_expired():
    ends_us = NOW_US + int(AUTHORITY_VALID.total_seconds()) * SECOND
    data = {CLIENT_CA: _certificate(0)}
    assert combined(data, data, 2 * ends_us) == data


def test_unreadable_authority_is_dropped():
    assert combined({CLIENT_CA: "none"}, {CLIENT_CA: _certificate(0)}, NOW_US) == {CLIENT_CA: _certificate(0)}


def test_lists_are_merged_and_stand_only_beside_an_authority_of_proxies():
    existing = {PROXY_CA: _certificate(1), LISTS[0]: '["X-User"]', LISTS[1]: "no JSON"}
    required = {LISTS[0]: '["X-Remote-User","X-User"]', LISTS[3]: "[]"}
    data = combined(existing, required, NOW_US)
    assert [json.loads(data[key]) for key in LISTS] == [["X-User", "X-Remote-User"], [], [], []]
    assert data[PROXY_CA] == _certificate(1)
    assert combined({}, required, NOW_US) == {}


def test_config_map_that_holds_the_data_is_not_changed():
    made = config_map(None, {CLIENT_CA: _certificate(0)}, N, NOW_US)
    assert made["metadata"] == {"name": "extension-apiserver-authentication", "namespace": "kube-system"}
    assert config_map(made, {CLIENT_CA: _certificate(0)}, N, NOW_US) is made
    assert config_map(made, {}, N, NOW_US) is made
