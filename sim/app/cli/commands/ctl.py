"""`orrery ctl`, also `kubectl orrery`: steer a served cluster from the command line.

Turns words into calls of the control API (`sim.app.steering.routes`), and its answers into lines,
or with `--json` into JSON.  Each kind of step of the scenario language is a command, with its
parameters as options: `orrery ctl fail --nodes zone=a --how power-loss --for 5m`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.app.cli.commands.arguments import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_OK, output_file
from sim.app.cli.completion import complete_with

if TYPE_CHECKING:
    from sim.app.cli.commands.arguments import Commands
    from sim.app.steering.remote import Remote

Obj = dict[str, Any]
Call = Callable[["Remote", argparse.Namespace], Any]


def add(commands: Commands) -> None:
    """Add the command."""
    ctl = commands.add_parser("ctl", add_help=False)
    words = ctl.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND ...")
    complete_with(words, _words)
    ctl.set_defaults(rest="words", call=lambda arguments: control(arguments.words, "orrery ctl"))


def control(words: Sequence[str], prog: str) -> int:
    """Carry out a command; the exit status.  Raises InputError."""
    from sim.app.steering.remote import Remote

    entry = argparse.Namespace(client_config=None, context="", json=False)
    arguments = _parser(prog).parse_args(words, entry)
    return int(arguments.act(Remote(arguments.client_config, arguments.context), arguments))


def _words(prefix: str, **_: Any) -> list[str]:
    """What a shell completes: commands and kinds of steps."""
    from sim.scenario.actions import KINDS

    names = [*_COMMANDS, *(kind.name for kind in KINDS.values())]
    return sorted(name for name in names if name.startswith(prefix))


class _Parser(argparse.ArgumentParser):
    """A parser with errors of one line."""

    def error(self, message: str) -> Any:
        self.exit(EXIT_BAD_INPUT, f"orrery: {message} (see {self.prog} --help)\n")


def _parser(prog: str) -> argparse.ArgumentParser:
    from sim.scenario.actions import KINDS

    common = _Parser(add_help=False)
    common.add_argument(
        "--client-config", "--kubeconfig", type=Path, metavar="FILE", default=argparse.SUPPRESS,
        help="the client configuration (default: that of kubectl)",
    )  # fmt: skip
    common.add_argument(
        "--context",
        metavar="NAME",
        default=argparse.SUPPRESS,
        help="a context of it (default: the current one)",
    )
    common.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
    parser = _Parser(
        prog=prog,
        parents=[common],
        description="Steer a served cluster: its time, its faults, its expectations.",
        epilog="Each kind of step of a scenario is a command too (see orrery faults).",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (text, prepare, call) in _COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text, parents=[common])
        prepare(command)
        command.set_defaults(act=call)
    for kind in KINDS.values():
        text = " ".join(kind.documentation.split())
        command = commands.add_parser(kind.name, description=text, parents=[common])
        _add_parameters(command, kind)
        command.set_defaults(act=_perform, kind=kind.name)
    return parser


# --- steps ----------------------------------------------------------------------------------------


def _add_parameters(command: argparse.ArgumentParser, kind: Any) -> None:
    """The parameters of a kind of step as options."""
    from sim.app.reference.steps import page_of

    page = page_of(kind)
    command.epilog = f"In a scenario: {page.example}"
    for name, default, meaning in page.parameters:
        shown = meaning.replace("%", "%%") + (
            f" (default: {default})" if default not in ("", "required") else ""
        )
        command.add_argument(
            f"--{_dashed(name)}", dest=f"given.{name}", action="append", metavar="VALUE", help=shown,
            required=default == "required",
        )  # fmt: skip
    command.add_argument("--for", dest="lasts", metavar="DURATION", help="how long the effect lasts")
    command.add_argument("--step-name", metavar="NAME", help="the name of the step")


def _dashed(name: str) -> str:
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)


def _perform(remote: Remote, arguments: argparse.Namespace) -> int:
    """Do a step now."""
    entry = {
        name.removeprefix("given."): value_of(values)
        for name, values in vars(arguments).items()
        if name.startswith("given.") and values is not None
    }
    step: Obj = {arguments.kind: entry}
    if arguments.step_name:
        step["name"] = arguments.step_name
    if arguments.lasts:
        step["for"] = arguments.lasts
    result = remote.post("/steps", step)
    return _said(arguments, result, f"done: {result['name']}")


def value_of(texts: Sequence[str]) -> Any:
    """The value that an option means: YAML, or KEY=VALUE,KEY=VALUE for a mapping; given several
    times, a list.  Raises InputError.
    """
    import yaml

    from sim.errors import InputError

    result: list[Any] = []
    for text in texts:
        pairs = [part.partition("=") for part in text.split(",")]
        if text[:1] not in "{[\"'" and all(key and sign for key, sign, _ in pairs):
            result.append({key: yaml.safe_load(value) for key, _, value in pairs})
            continue
        try:
            result.append(yaml.safe_load(text))
        except yaml.YAMLError:
            raise InputError(f"{text!r} is no YAML") from None
    return result[0] if len(result) == 1 else result


# --- time -----------------------------------------------------------------------------------------


def _clock(found: Mapping[str, Any]) -> str:
    """The state of time in a line."""
    from sim.report.story import clock

    pace = "as fast as possible" if found["pace"] == "max" else f"pace {found['pace']:g}"
    rest = f"paused ({pace} when it goes on)" if found["paused"] else pace
    if found["held_by"]:
        rest = f"held by {', '.join(found['held_by'])}"
    return f"{clock(found['virtual_us'])}, {rest}, {len(found['faults'])} active faults"


def _timed(path: str) -> Call:
    def call(remote: Remote, arguments: argparse.Namespace) -> int:
        result = remote.post(path)
        return _said(arguments, result, _clock(result))

    return call


def _pace(remote: Remote, arguments: argparse.Namespace) -> int:
    from sim.errors import InputError

    try:
        pace = "max" if arguments.pace == "max" else float(arguments.pace)
    except ValueError:
        raise InputError(f"{arguments.pace!r} is no pace", "", "a number, or max") from None
    result = remote.put("/time/pace", {"pace": pace})
    return _said(arguments, result, _clock(result))


def _step(remote: Remote, arguments: argparse.Namespace) -> int:
    result = remote.post("/time/step", {"events": arguments.events})
    return _said(arguments, result, _clock(result))


def _run(remote: Remote, arguments: argparse.Namespace) -> int:
    return _ran(remote, arguments, {"for": arguments.duration})


def _run_until(remote: Remote, arguments: argparse.Namespace) -> int:
    from sim.units import parse_duration_us

    try:
        parse_duration_us(arguments.what)
        target: Obj = {"until": arguments.what}
    except ValueError:
        target = {"condition": arguments.what, "limit": arguments.limit}
    return _ran(remote, arguments, target)


def _ran(remote: Remote, arguments: argparse.Namespace, wanted: Obj) -> int:
    result = remote.post("/time/run", {**wanted, "fast": not arguments.paced})
    text = _clock(result) if result["reached"] else f"not reached: {_clock(result)}"
    _said(arguments, result, text)
    return EXIT_OK if result["reached"] else EXIT_FAILED


def _held(path: str) -> Call:
    def call(remote: Remote, arguments: argparse.Namespace) -> int:
        result = remote.post(path, {"name": arguments.holder})
        return _said(arguments, result, _clock(result))

    return call


# --- looking --------------------------------------------------------------------------------------


def _state(remote: Remote, arguments: argparse.Namespace) -> int:
    result = remote.get("/state")
    lines = [
        _clock(result),
        f"{result['ready']} of {result['nodes']} nodes ready, {result['running']} of {result['pods']} pods running",
        *(f"fault {one['name']} ({one['kind']}) since {one['since_s']:.3f} s" for one in result["faults"]),
        *map(_judgement, result["expectations"]),
    ]
    return _said(arguments, result, "\n".join(lines))


def _judgement(one: Mapping[str, Any]) -> str:
    return f"{one['state']:7} {one['name']}: {one['measured']} (wanted {one['wanted']})"


def _faults(remote: Remote, arguments: argparse.Namespace) -> int:
    result = remote.get("/faults")
    lines = [f"{one['name']:20} {one['kind']:12} since {one['since_s']:.3f} s" for one in result["items"]]
    return _said(arguments, result, "\n".join(lines) or "no active faults")


def _expectations(remote: Remote, arguments: argparse.Namespace) -> int:
    result = remote.get("/expectations")
    return _said(arguments, result, "\n".join(map(_judgement, result["items"])) or "no expectations")


def _expect(remote: Remote, arguments: argparse.Namespace) -> int:
    import yaml

    from sim.errors import InputError

    try:
        entry = yaml.safe_load(arguments.entry)
    except yaml.YAMLError:
        entry = None
    if not isinstance(entry, dict):
        raise InputError(
            f"{arguments.entry!r} is no expectation", "", 'e.g. "{never: any nodes have Ready=Unknown}"'
        )
    result = remote.post("/expectations", entry)
    return _said(arguments, result, f"judged from now on: {result['name']}")


def _heal(remote: Remote, arguments: argparse.Namespace) -> int:
    names = arguments.names or [one["name"] for one in remote.get("/faults")["items"]]
    for name in names:
        remote.delete(f"/faults/{name}")
    return _said(
        arguments, {"healed": names}, "\n".join(f"ended: {name}" for name in names) or "no active faults"
    )


def _why(remote: Remote, arguments: argparse.Namespace) -> int:
    from sim.report.story import clock

    result = remote.get("/why", target=arguments.target, namespace=arguments.namespace, what=arguments.what)
    lines = [result["title"]]
    lines += [f"{clock(one['at_us']):>14}  {one['actor']:24} {one['text']}" for one in result["chain"]]
    return _said(arguments, result, "\n".join(lines))


def _watch(remote: Remote, arguments: argparse.Namespace) -> int:
    """Print the changes as they come."""
    import json

    from sim.app.process.printed import visible
    from sim.report.story import clock

    for message in remote.changes():
        if arguments.json:
            print(json.dumps(message), flush=True)
            continue
        for kind, at_us, *values in () if message.get("reset") else message["rows"]:
            shown = " ".join(str(value) for value in values if value != "")
            print(visible(f"{clock(at_us):>14} {kind:7} {shown}"), flush=True)
    return EXIT_OK


def _save(remote: Remote, arguments: argparse.Namespace) -> int:
    return _written(arguments, remote.download("/scenario", name=arguments.scenario_name or ""))


def _trace(remote: Remote, arguments: argparse.Namespace) -> int:
    return _written(arguments, remote.download("/trace"))


def _snapshot(remote: Remote, arguments: argparse.Namespace) -> int:
    from sim.report.story import clock

    result = remote.post("/snapshots", {"name": arguments.name})
    return _said(arguments, result, f"saved {result['name']} at {clock(result['virtual_us'])}")


def _written(arguments: argparse.Namespace, parts: Iterable[bytes]) -> int:
    from sim.errors import InputError
    from sim.files import replaced

    if arguments.file.exists() and not arguments.force:
        raise InputError("exists already", str(arguments.file), "name another file, or --force replaces it")
    with replaced(arguments.file) as file:
        file.writelines(parts)
    return _said(arguments, {"file": str(arguments.file)}, f"written: {arguments.file}")


def _said(arguments: argparse.Namespace, found: Any, text: str) -> int:
    import json

    from sim.app.process.printed import visible

    print(json.dumps(found) if arguments.json else "\n".join(map(visible, text.splitlines())), flush=True)
    return EXIT_OK


# --- the commands ---------------------------------------------------------------------------------


def _nothing(_: argparse.ArgumentParser) -> None:
    """A command without arguments."""


def _adds(*names: str, **more: Any) -> Callable[[argparse.ArgumentParser], None]:
    def prepare(command: argparse.ArgumentParser) -> None:
        command.add_argument(*names, **more)

    return prepare


def _adds_paced(*names: str, **more: Any) -> Callable[[argparse.ArgumentParser], None]:
    def prepare(command: argparse.ArgumentParser) -> None:
        command.add_argument(*names, **more)
        command.add_argument("--paced", action="store_true", help="at the pace, not as fast as possible")
        command.add_argument(
            "--limit",
            default="1h",
            metavar="DURATION",
            help="how long a condition is waited for (default: 1h)",
        )

    return prepare


def _adds_target(command: argparse.ArgumentParser) -> None:
    command.add_argument("target", metavar="KIND/NAME", help="an object, such as pod/web-* or node/node-1")
    command.add_argument("-n", "--namespace", default="default", metavar="NAME", help="its namespace")
    command.add_argument(
        "--what", default="", metavar="CHANGE", help="which of its changes, e.g. phase=Failed"
    )


def _adds_file(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", type=output_file, metavar="FILE", help="the file to write")
    command.add_argument("--force", action="store_true", help="replace a file that is there")
    command.add_argument("--name", dest="scenario_name", metavar="NAME", help="the name of the scenario")


_COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None], Call]] = {
    "state": ("show time, faults, expectations and figures", _nothing, _state),
    "pause": ("let virtual time rest", _nothing, _timed("/time/pause")),
    "resume": ("let virtual time go on", _nothing, _timed("/time/resume")),
    "pace": ("set virtual seconds for each real second", _adds("pace", metavar="N|max"), _pace),
    "step": (
        "do some events, then rest",
        _adds("events", type=int, nargs="?", default=1, metavar="N"),
        _step,
    ),
    "run": ("run for a time, then rest", _adds_paced("duration", metavar="DURATION"), _run),
    "run-until": (
        "run until an instant or a condition in words, then rest",
        _adds_paced("what", metavar="INSTANT|CONDITION"),
        _run_until,
    ),
    "hold": ("let virtual time rest for a client", _adds("holder", metavar="NAME"), _held("/time/hold")),
    "release": ("end what a client holds", _adds("holder", metavar="NAME"), _held("/time/release")),
    "active": ("list the faults with an effect that lasts", _nothing, _faults),
    "end": ("end the effect of steps, or of all", _adds("names", nargs="*", metavar="STEP"), _heal),
    "expectations": ("show what the expectations have come to", _nothing, _expectations),
    "expect": ("judge an expectation from now on", _adds("entry", metavar="YAML"), _expect),
    "why": ("show the chain of causes of an object", _adds_target, _why),
    "watch": ("print changes as they come", _nothing, _watch),
    "save": ("write what was done as a scenario file", _adds_file, _save),
    "trace": ("write the trace so far to a file", _adds_file, _trace),
    "snapshot": (
        "keep the present state of a server with a data directory",
        _adds("name", metavar="NAME"),
        _snapshot,
    ),
}
