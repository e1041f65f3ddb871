"""volume: the volume of a claim is full."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from sim.dataclass import dataclass
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Ends, Fault, Imposed, Stage, Undo
from sim.faults.shared.parameters import Nodes, Strict
from sim.units import SECOND

Mode = Literal["full"]
NO_SPACE = "write error: No space left on device"


class Volume(Strict):
    """The parameters of `volume`."""

    claim: Annotated[str, Meta(description="The name of the claim.")]
    how: Annotated[Mode, Meta(description="What is wrong with it.")]
    namespace: Annotated[str, Meta(description="Of the claim.")] = "default"
    programs: Annotated[
        Literal["end", "not-ready"],
        Meta(description="What programs do that write to it: they end, or their probes fail."),
    ] = "end"
    exit_code: Annotated[
        Annotated[int, Meta(ge=0, le=255)] | UnsetType, Meta(description="Of programs that end; default 1.")
    ] = UNSET
    after: Annotated[
        str | UnsetType, Meta(description="From the start of a program to its first write; default 1s.")
    ] = UNSET


@dataclass(frozen=True, slots=True)
class VolumeFails(Imposed):
    """Writes to the volume of a claim fail on each of these nodes.

    exit_code: of the programs that end by that; None: their probes fail
    after_us: from the start of a program to its first write
    """

    claim: str
    how: Mode
    nodes: tuple[str, ...]
    exit_code: int | None
    after_us: int
    untraced = ("nodes",)

    def impose(self, stage: Stage, step: str) -> None:
        """Programs with the volume behave so until the fault ends, or the volume is larger."""
        cluster, kernel = stage.cluster, stage.cluster.kernel
        changes: dict[str, Any] = {"log": NO_SPACE}
        if self.exit_code is None:
            changes["unhealthy_after_us"] = self.after_us
        else:
            changes |= {"exit_after_us": self.after_us, "exit_code": self.exit_code}
        override = cluster.container_override(
            changes, claim=self.claim, record=kernel.cause, since_us=kernel.now_us
        )
        for node in self.nodes:
            stage.faults.impose(step, node, "behaviour", override)

    def begin(self, stage: Stage, step: str) -> Undo:
        """Impose the fault; it ends by the result, or when the file system is larger."""
        self.impose(stage, step)
        forget = stage.cluster.storage_drivers.on_room(self.claim, lambda: stage.end_step(step))

        def undo() -> None:
            forget()
            self.lift(stage, step)

        return undo


def _check(context: Context, given: Volume) -> VolumeFails:
    if not given.claim or "/" in given.claim:
        raise context.error(
            "claim", f"{given.claim!r} is no name of a claim", "give its namespace as 'namespace'"
        )
    ends = given.programs == "end"
    if given.exit_code is not UNSET and not ends:
        raise context.error("exitCode", "programs that are not ready do not end", "leave out 'programs'")
    code = 1 if given.exit_code is UNSET else given.exit_code
    after_us = 1 * SECOND if given.after is UNSET else context.optional_duration(given.after, "after")
    return VolumeFails(
        f"{given.namespace}/{given.claim}",
        given.how,
        context.nodes(Nodes()),
        code if ends else None,
        after_us or 0,
    )


FAULT = Fault(
    name="volume",
    parameters=Volume,
    check=_check,
    ends=Ends.LATER,
    documentation="""
The volume of a claim is full: writes to it fail. Programs of containers that mount it for writing end some time after
their start, or (`programs: not-ready`) go on without being ready. The fault ends when the claim requests more and the
node has made its file system larger, which takes up to a minute and a half, or by `for` or `heal`.""",
    example="""
- {at: 3m, volume: {claim: data-db-0, how: full}}                               # until the claim is expanded
- {at: 3m, volume: {claim: data-db-0, how: full, programs: not-ready}, for: 10m}""",
)
