"""`orrery serve`: a simulated cluster behind the real API."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from sim.app.cli.commands.arguments import add_scenario, add_seed, check_outputs, count, output_file, whole
from sim.app.profiles import PROFILES, settings_of
from sim.units import SECOND, parse_duration_us

if TYPE_CHECKING:
    from sim.app.cli.commands.arguments import Commands
    from sim.app.serving.client_configs import ClientConfig


HOST_MAX = 253  # letters of a name: RFC 1035
REACTION_MAX_S = 60
PACE_MIN, PACE_MAX = 0.001, 1_000_000  # virtual seconds a real second


def add(commands: Commands) -> None:
    """Add the command."""
    serve = commands.add_parser(
        "serve",
        help="serve the real REST API from a simulated cluster",
        description="Serves the REST API over TLS while the cluster runs. Without a scenario: a control plane with no node.",
        epilog="example: orrery serve scenarios/zone-outage.yaml --naming kubernetes --pace 60 --client-config out/config",
    )
    add_scenario(serve, optional=True)
    serve.add_argument(
        "--host", type=_host, default="127.0.0.1", help="address to listen on (default: %(default)s)"
    )
    serve.add_argument(
        "--port", type=_port, default=6443, help="port to listen on, 0 for any (default: %(default)s)"
    )
    serve.add_argument(
        "--pace",
        type=_pace,
        default=1.0,
        metavar="1|60|max",
        help="virtual seconds in each real second (default: 1)",
    )
    serve.add_argument(
        "--api-server",
        action="append",
        default=[],
        type=_flag,
        metavar="NAME=VALUE",
        help="an option of the API servers, e.g. runtime-config=api/alpha=true (repeatable)",
    )
    serve.add_argument(
        "--profile",
        choices=tuple(PROFILES),
        help="settings for a purpose; envtest: an API server alone, for suites on controller-runtime's envtest",
    )
    serve.add_argument("--nodes", type=count, metavar="N", help="add this number of nodes")
    serve.add_argument(
        "--adopt-nodes",
        type=_selector,
        nargs="?",
        const="",
        metavar="SELECTOR",
        help="Node objects that clients create become nodes with a machine, all or those with these labels",
    )
    serve.add_argument(
        "--naming", choices=("orch", "kubernetes"), help="identifiers served (default: the scenario's)"
    )
    add_seed(serve)
    _add_outside(serve)
    serve.add_argument(
        "--client-config",
        type=_client_configs,
        metavar="FILE",
        help="write a client configuration of the administrator when the nodes are registered, at most 10 real seconds later; or several, as "
        "admin=FILE,alice=FILE,bob+dev+ops=FILE (users alice, and bob in the groups dev and ops)",
    )
    serve.add_argument(
        "--token-auth-file", type=Path, metavar="FILE", help='further users: token,user,uid,"group1,group2"'
    )
    _add_waits(serve)
    _add_limits(serve)
    serve.set_defaults(call=_serve)


def _add_waits(serve: argparse.ArgumentParser) -> None:
    serve.add_argument(
        "--wait-for-client",
        type=_watches,
        default=0,
        metavar="N",
        help="let virtual time rest until clients have opened this number of watches; client configurations are written at once",
    )
    serve.add_argument(
        "--reaction",
        type=_reaction,
        default=0.0,
        metavar="0.2s",
        help="let virtual time rest for this real time after each request of a client, and each event that it is given",
    )


def _add_limits(serve: argparse.ArgumentParser) -> None:
    serve.add_argument(
        "--journal",
        type=output_file,
        metavar="FILE",
        help="write all requests of clients to this file, for orrery replay; it must not exist yet",
    )
    serve.add_argument(
        "--force",
        action="store_true",
        help="replace an existing journal, and client configurations with other contents",
    )
    serve.add_argument(
        "--max-connections",
        type=_connections,
        metavar="N",
        help="connections at a time; idle ones make room for new ones (default: what ulimit -n allows, at most 10000)",
    )


def _add_outside(serve: argparse.ArgumentParser) -> None:
    serve.add_argument(
        "--service-address",
        type=_service_address,
        action="append",
        default=[],
        metavar="NS/SERVICE=HOST:PORT",
        help="the server outside that webhooks and aggregated APIs behind this Service are; may be repeated",
    )
    serve.add_argument(
        "--front-proxy",
        action="store_true",
        help="make the certificate by which aggregated APIs know the server, and publish its authority "
        "in extension-apiserver-authentication, as kubeadm does",
    )


def _selector(text: str) -> str:
    from sim.api.selectors import SelectorError, parse_labels

    try:
        parse_labels(text)
    except SelectorError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _flag(text: str) -> str:
    """The setting of an option that is written as on a command line, with or without dashes."""
    name, sign, value = text.removeprefix("--").partition("=")
    if not sign or not name or not name.replace("-", "").isalnum():
        raise argparse.ArgumentTypeError(f"{text!r} is no NAME=VALUE")
    return f"cluster.apiServer.flags.{name}={value}"


def _host(text: str) -> str:
    if not text or not text.isascii() or not text.isprintable() or " " in text or len(text) > HOST_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no host name or address")
    return text.removeprefix("[").removesuffix("]")  # as addresses of IPv6 stand in URLs


def _port(text: str) -> int:
    return whole(text, 0, 65535, "is no port: a whole number from 0 to 65535")


def _connections(text: str) -> int:
    return whole(text, 1, 1_000_000, "is no number of connections from 1 to 1000000")


def _watches(text: str) -> int:
    return whole(text, 0, 1_000_000, "is no number of watches from 0 to 1000000")


def _reaction(text: str) -> float:
    try:
        seconds = parse_duration_us(text) / SECOND
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= REACTION_MAX_S:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no duration from 0s to {REACTION_MAX_S}s, such as 200ms"
        )
    return seconds


def _service_address(text: str) -> tuple[str, tuple[str, int]]:
    service, _, address = text.partition("=")
    host, _, port = address.rpartition(":")
    if service.count("/") != 1 or not all(service.split("/")) or not host:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no NAMESPACE/SERVICE=HOST:PORT, such as default/policy=127.0.0.1:9443"
        )
    return service, (_host(host), whole(port, 1, 65535, "is no port: a whole number from 1 to 65535"))


def _pace(text: str) -> float:
    if text == "max":
        return float("inf")
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if value == 0:
        problem = "would stop time for good, since nothing could move it: a slow pace is e.g. 0.001"
        raise argparse.ArgumentTypeError(f"{text} {problem}")
    if not PACE_MIN <= value <= PACE_MAX:
        problem = f"is no pace: a number from {PACE_MIN} to {PACE_MAX}, or max"
        raise argparse.ArgumentTypeError(f"{text} {problem}")
    return value


def _client_configs(text: str) -> tuple[ClientConfig, ...]:
    from sim.app.serving.client_configs import parse_client_configs

    try:
        return parse_client_configs(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _serve(arguments: argparse.Namespace) -> int:
    from sim.app.serving.client_configs import check_client_configs
    from sim.app.serving.serve import serve

    inputs = arguments.scenario, arguments.token_auth_file
    configs = arguments.client_config or ()
    written = [config.path for config in configs]
    check_outputs(*written, arguments.journal, inputs=inputs, private=True)
    if not arguments.force:
        check_client_configs(configs)
    arguments.set = [*settings_of(arguments.profile or ""), *arguments.set, *arguments.api_server]
    return serve(arguments)
