"""`orrery serve`: a simulated cluster behind the real API."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from sim.app.cli.commands.arguments import add_scenario, add_seed, check_outputs, count, output_file, whole
from sim.app.profiles import PROFILES, settings_of
from sim.app.reference.shipped import DISTRIBUTIONS, distribution
from sim.units import SECOND, parse_duration_us

if TYPE_CHECKING:
    from sim.app.cli.commands.arguments import Commands
    from sim.app.serving.configs.clients import ClientConfig


NODES = 3  # of a cluster with --like
HOST_MAX = 253  # letters of a name: RFC 1035
REACTION_MAX_S = 60
PACE_MIN, PACE_MAX = 0.001, 1_000_000  # virtual seconds a real second


def add(commands: Commands) -> None:
    """Add the command."""
    serve = commands.add_parser("serve")
    add_scenario(serve, optional=True)
    serve.add_argument("--host", type=_host, default="127.0.0.1")
    serve.add_argument("--port", type=port, default=6443)
    serve.add_argument("--pace", type=pace, default=1.0, metavar="1|60|max|0")
    serve.add_argument("--api-server", action="append", default=[], type=_flag, metavar="NAME=VALUE")
    serve.add_argument("--profile", choices=tuple(PROFILES))
    serve.add_argument("--like", choices=DISTRIBUTIONS)
    serve.add_argument("--nodes", type=count, metavar="N")
    serve.add_argument("--adopt-nodes", type=_selector, nargs="?", const="", metavar="SELECTOR")
    serve.add_argument("--naming", choices=("orch", "kubernetes"))
    add_seed(serve)
    _add_outside(serve)
    serve.add_argument("--client-config", type=client_configs, metavar="FILE")
    serve.add_argument("--token-auth-file", type=Path, metavar="FILE")
    _add_waits(serve)
    _add_limits(serve)
    serve.set_defaults(call=_serve)


def _add_waits(serve: argparse.ArgumentParser) -> None:
    serve.add_argument("--wait-for-client", type=_watches, default=0, metavar="N")
    serve.add_argument("--wait-for-clocks", type=_watches, default=0, metavar="N")
    serve.add_argument("--reaction", type=_reaction, default=0.0, metavar="0.2s")


def _add_limits(serve: argparse.ArgumentParser) -> None:
    serve.add_argument("--journal", type=output_file, metavar="FILE")
    serve.add_argument("--data-dir", type=Path, metavar="DIR")
    serve.add_argument("--agent-logs", type=Path, metavar="DIR")
    serve.add_argument("--log", type=output_file, metavar="FILE|-")
    serve.add_argument("--log-format", choices=("text", "json"), default="text")
    serve.add_argument("--force", action="store_true")
    serve.add_argument("--max-connections", type=_connections, metavar="N")


def _add_outside(serve: argparse.ArgumentParser) -> None:
    serve.add_argument(
        "--service-address",
        type=_service_address,
        action="append",
        default=[],
        metavar="NS/SERVICE=HOST:PORT",
    )
    serve.add_argument("--front-proxy", action="store_true")
    serve.add_argument("--expose-agents", action="store_true")


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


def port(text: str) -> int:
    """A port to listen on.  Raises ArgumentTypeError, as the readers below."""
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


def pace(text: str) -> float:
    """Virtual seconds for each real second, infinity for "max"; 0: time rests."""
    if text == "max":
        return float("inf")
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if value == 0:
        return value
    if not PACE_MIN <= value <= PACE_MAX:
        problem = f"is no pace: a number from {PACE_MIN} to {PACE_MAX}, max, or 0 for a start at rest"
        raise argparse.ArgumentTypeError(f"{text} {problem}")
    return value


def client_configs(text: str) -> tuple[ClientConfig, ...]:
    """The client configurations to write."""
    from sim.app.serving.configs.clients import parse_client_configs

    try:
        return parse_client_configs(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _take(arguments: argparse.Namespace) -> None:
    """Serve what `--like` names, with nodes unless a folder holds the cluster already."""
    from sim.app.serving.data_dir import JOURNAL
    from sim.errors import InputError

    if arguments.scenario is not None:
        raise InputError("is a cluster of its own", "--like", "leave out the scenario")
    arguments.scenario = distribution(arguments.like)
    if arguments.nodes is None and not (arguments.data_dir and (arguments.data_dir / JOURNAL).exists()):
        arguments.nodes = NODES


def _serve(arguments: argparse.Namespace) -> int:
    from sim.app.serving.configs.clients import check_client_configs
    from sim.app.serving.serve import serve
    from sim.errors import InputError

    if arguments.like:
        _take(arguments)
    if arguments.data_dir is not None and arguments.journal is not None:
        raise InputError("has a journal of its own", "--data-dir", "leave out --journal")
    inputs = arguments.scenario, arguments.token_auth_file
    configs = arguments.client_config or ()
    written = [config.path for config in configs]
    log = None if arguments.log == Path("-") else arguments.log
    check_outputs(*written, arguments.journal, log, inputs=inputs, private=True)
    if not arguments.force:
        check_client_configs(configs)
    arguments.set = [*settings_of(arguments.profile or ""), *arguments.set, *arguments.api_server]
    return serve(arguments)
