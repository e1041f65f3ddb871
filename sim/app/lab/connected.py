"""A lab that is a served cluster: what `Lab.connect` returns.

    lab = Lab.connect("out/config")
    lab.fail(nodes={"name": "node-0"}, how="power-loss")
    lab.run_until("any nodes have Ready=Unknown")
    lab.why("node/node-0")

Turns the calls of a lab into requests of the control API.  Its objects are read by any client
library, since they are those of a real API.

Holds: the calls do what those of `Lab` with the same name do, on a cluster that others see too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from sim.app.lab.keywords import suggests_keywords
from sim.app.lab.shown import State, Story
from sim.app.steering.remote import Remote
from sim.app.steps import step_method
from sim.errors import InputError, suggestion
from sim.faults.shared.kinds import StepKind
from sim.files import replaced
from sim.report.story import Line
from sim.scenario.actions import KINDS
from sim.units import SECOND

Obj = dict[str, Any]


@suggests_keywords
class ConnectedLab:
    """A served cluster in a notebook.

    config: its client configuration; None for that of kubectl
    context: of the configuration; "" for the current one
    Raises InputError.
    """

    def __init__(self, config: str | Path | None = None, context: str = "") -> None:
        self._remote = Remote(None if config is None else Path(config), context)
        self._remote.get("/state")

    @property
    def now_s(self) -> float:
        """Virtual time since the start, in seconds."""
        return float(self._remote.get("/state")["virtual_us"]) / SECOND

    def run(self, duration: str) -> State:
        """Run for a duration as fast as possible, and rest then; the state at its end."""
        self._remote.post("/time/run", {"for": duration, "fast": True})
        return self.state()

    def run_until(self, condition: str | Mapping[str, Any], limit: str = "1h") -> float | None:
        """Run as fast as possible until a condition holds or an event happens, and rest then.

        Returns the seconds of virtual time that it took, and None if `limit` came first.
        """
        before_s = self.now_s
        target = condition if isinstance(condition, str) else dict(condition)
        result = self._remote.post("/time/run", {"condition": target, "limit": limit, "fast": True})
        return float(result["virtual_us"]) / SECOND - before_s if result["reached"] else None

    def pause(self) -> State:
        """Let virtual time rest; the state then."""
        self._remote.post("/time/pause")
        return self.state()

    def resume(self, pace: float | str = "") -> None:
        """Let virtual time go on.  pace: virtual seconds a real second, or "max"; "": as before"""
        if pace != "":
            self._remote.put("/time/pace", {"pace": pace})
        self._remote.post("/time/resume")

    def expect(self, entry: Mapping[str, Any]) -> str:
        """Judge an expectation from now on, given as its entry in a scenario; its name."""
        return str(self._remote.post("/expectations", dict(entry))["name"])

    def expectations(self) -> list[Obj]:
        """What the expectations have come to."""
        result: list[Obj] = self._remote.get("/expectations")["items"]
        return result

    def state(self) -> State:
        """The numbers of nodes and pods now."""
        result = self._remote.get("/state")
        return State(
            result["virtual_us"], result["nodes"], result["ready"], result["pods"], result["running"]
        )

    def why(self, target: str, what: str = "", namespace: str = "default") -> Story:
        """What led to what became of an object: "pod/web-1", "node/node-a-0"; a glob finds one."""
        result = self._remote.get("/why", target=target, what=what, namespace=namespace)
        lines = [msgspec.convert({"ident": one["record"], **one}, Line) for one in result["chain"]]
        return Story(result["title"], lines)

    def save(self, file: str | Path, name: str = "") -> None:
        """Write what was done as a scenario file."""
        self._written(file, "/scenario", name=name)

    def save_trace(self, file: str | Path) -> None:
        """Write the events so far to a file for `orrery why`, `diff` and `show`."""
        self._written(file, "/trace")

    def _written(self, file: str | Path, source: str, **query: str) -> None:
        path = Path(file)
        if path.exists():
            raise InputError("exists already and is kept", str(path), "choose another name")
        with replaced(path) as opened:
            opened.writelines(self._remote.download(source, **query))

    @property
    def trace_sha256(self) -> str:
        """The hash of all events so far: equal hashes mean equal runs."""
        return str(self._remote.get("/state")["trace_sha256"])

    def __getattr__(self, name: str) -> Callable[..., str]:
        kind = KINDS.get(name)
        if kind is None:
            entry = [*(one for one in dir(type(self)) if not one.startswith("_")), *KINDS]
            raise AttributeError(f"a lab has no {name!r} {suggestion(name, entry)}".rstrip())
        return step_method(kind, self._perform)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *KINDS})

    def _perform(
        self, kind: StepKind, parameters: dict[str, Any], for_: str | None = None, step_name: str = ""
    ) -> str:
        """Do a step now; its name."""
        spelled = {field.name: field.encode_name for field in msgspec.structs.fields(kind.parameters)}
        entry = {spelled.get(key.rstrip("_"), key.rstrip("_")): value for key, value in parameters.items()}
        step: Obj = {kind.name: entry}
        step |= {} if for_ is None else {"for": for_}
        step |= {"name": step_name} if step_name else {}
        return str(self._remote.post("/steps", step)["name"])

    def __repr__(self) -> str:
        return f"<lab of a served cluster, {self.state()}>"
