"""Flags of the API server become what a replica goes by; one without effect is refused."""

import re
from pathlib import Path

import pytest

from sim.app.options import api_server_options, check_options
from sim.errors import InputError
from sim.options.apiserver.server import parse_api_server
from sim.options.base import refusals_of
from sim.scenario.plan.plan import ClusterPlan, ComponentPlan
from sim.scenario.read.option_file import OptionFiles
from sim.units import SECOND


def test_the_defaults_are_upstreams() -> None:
    options = api_server_options(parse_api_server({}))
    assert (options.max_requests_inflight, options.max_mutating_requests_inflight) == (None, None)
    assert options.seats == 600
    assert (options.event_ttl_us, options.min_request_timeout_s) == (3600 * SECOND, 1800)


def test_with_priority_and_fairness_the_limits_are_seats() -> None:
    flags = parse_api_server({"max-requests-inflight": 5, "max-mutating-requests-inflight": 0})
    options = api_server_options(flags)
    assert (options.seats, options.max_requests_inflight) == (5, None)


def test_limits_count_without_priority_and_fairness() -> None:
    flags = parse_api_server({"enable-priority-and-fairness": False, "max-requests-inflight": 5})
    options = api_server_options(flags)
    assert (options.max_requests_inflight, options.max_mutating_requests_inflight) == (5, 200)
    assert options.seats == 0


def test_ports_of_nodes_are_a_range_a_number_from_one_on_or_one() -> None:
    read = [
        parse_api_server({"service-node-port-range": ports}).node_ports
        for ports in ("30000-30009", "30000+10", "80", 80)
    ]
    assert read == [range(30000, 30010), range(30000, 30010), range(80, 81), range(80, 81)]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"max-requests-inflight": 0, "max-mutating-requests-inflight": 0},
            "leave no seats while enable-priority-and-fairness is true",
        ),
        (
            {"default-watch-cache-size": 0},
            "option default-watch-cache-size has no effect here: the storage is simulated",
        ),
        ({"watch-cache": False, "watch-cache-sizes": "pods#0"}, "has no effect while watch-cache is false"),
        ({"watch-cache-sizes": "pods"}, "wanted sizes such as pods#0,deployments.apps#0"),
        ({"watch-cache-sizes": "pods#-1"}, "wanted sizes such as pods#0,deployments.apps#0"),
        ({"etcd-cafile": "/ca.crt"}, "option etcd-cafile has no effect here: the storage is simulated"),
        (
            {"orchlet-client-key": "/k"},
            "option orchlet-client-key has no effect here: agents are reached inside",
        ),
        ({"event-tll": "5m"}, "unknown option event-tll (did you mean 'event-ttl'?)"),
        ({"goaway-chance": 0.03}, "is 0.03, must be between 0 and 0.02"),
        ({"service-cluster-ip-range": "ten"}, "must be a network such as 10.0.0.0/24"),
        ({"service-cluster-ip-range": "10.0.0.0/32"}, "must be at least 8 IP addresses"),
        ({"service-cluster-ip-range": "10.0.0.0/8"}, "the mask must be >= 12"),
        ({"etcd-compaction-interval": "1us"}, "must be 0 or at least 1ms"),
        ({"service-node-port-range": "32000-31000"}, "of which the last is not before the first"),
        ({"service-node-port-range": "60000+10000"}, "wanted ports from 1 to 65535"),
        ({"service-node-port-range": "0-100"}, "wanted ports from 1 to 65535"),
        ({"service-node-port-range": "many"}, "wanted ports such as 30000-32767"),
        ({"disable-admission-plugins": "Nothing"}, "there is no admission plugin 'Nothing' here"),
    ],
)
def test_what_would_have_no_effect_is_refused_with_its_place(given: dict[str, object], says: str) -> None:
    with pytest.raises(InputError) as caught:
        api_server_options(parse_api_server(given, place="s.yaml:3:1"), OptionFiles("s.yaml:3:1"))
    assert says in str(caught.value)
    assert "s.yaml:3:1" in str(caught.value)


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ("pods#100", "watch-cache-sizes: pods#100 has no effect (only 0 has"),
        ("events#0", "watch-cache-sizes: events#0 has no effect (only 0 has"),
        ("deployments#0", "there is no resource 'deployments' (did you mean 'deployments.apps'?)"),
    ],
)
def test_a_size_that_changes_no_watch_cache_is_refused(sizes: str, says: str) -> None:
    flags = {"watch-cache-sizes": sizes}
    with pytest.raises(InputError, match=re.escape(says)):
        check_options(ClusterPlan(api_server=ComponentPlan(flags=flags)))


def test_directives_of_transport_security_become_one_header() -> None:
    given = {"strict-transport-security-directives": "max-age=31536000,includeSubDomains"}
    assert api_server_options(parse_api_server(given)).added_headers == (
        ("Strict-Transport-Security", "max-age=31536000; includeSubDomains"),
    )
    for wrong in ("max-age", "age=3", "includesubdomains"):
        with pytest.raises(InputError, match="invalid, allowed values: max-age=expireTime"):
            parse_api_server({"strict-transport-security-directives": wrong})


def test_each_refused_option_has_a_reason_in_the_list_of_deviations() -> None:
    text = (Path(__file__).parents[5] / "FIDELITY.md").read_text(encoding="utf-8")
    table = text.partition("\nOptions of the API server that are refused")[2].partition("\n#")[0]
    cells = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
    named = {name for cell in cells for name in re.split(r",? ", cell)}
    # Options of logs stand together in the table.
    missing = [
        name
        for name, reason in refusals_of("ApiServerFlags").items()
        if name not in named and "no log" not in reason and not name.startswith(("tls-", "{short}"))
    ]
    assert missing == []
