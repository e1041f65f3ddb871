"""manifest: files of static pods are written, spoiled or removed."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from sim.dataclass import dataclass
from sim.errors import suggestion
from sim.faults.shared.context import Context
from sim.faults.shared.kinds import Action, Fault, Stage
from sim.faults.shared.parameters import NodesField, Strict
from sim.faults.shared.wording import first_names

Mode = Literal["write", "spoil", "remove"]
WAYS: tuple[Mode, ...] = ("write", "spoil", "remove")


class Manifest(Strict):
    """The parameters of `manifest`."""

    nodes: NodesField
    write: Annotated[dict[str, Any] | UnsetType, Meta(description="The Pod that the file is to hold.")] = (
        UNSET
    )
    file: Annotated[str, Meta(description="With `write`: another name of the file than that of the pod.")] = (
        ""
    )
    spoil: Annotated[
        str | UnsetType, Meta(description="The file that is to hold something other than a Pod.")
    ] = UNSET
    remove: Annotated[str | UnsetType, Meta(description="The file to remove.")] = UNSET


@dataclass(frozen=True, slots=True)
class ChangeManifest(Action):
    """A file of a static pod changes on these nodes."""

    nodes: tuple[str, ...]
    how: Mode
    file: str
    manifest: dict[str, Any] | None = None
    untraced: ClassVar[tuple[str, ...]] = ("manifest",)
    picked: ClassVar[str] = "nodes"

    def begin(self, stage: Stage, step: str) -> None:
        """Change the file on each node."""
        for node in (stage.cluster.nodes[name] for name in self.nodes):
            if self.how == "remove":
                node.remove_manifest(self.file)
            else:
                node.write_manifest(self.file, self.manifest)


def _check(context: Context, given: Manifest) -> ChangeManifest:
    ways = [how for how in WAYS if getattr(given, how) is not UNSET]
    if len(ways) != 1:
        raise context.error("", "does one of write, spoil and remove")
    nodes, (how,) = context.nodes(given.nodes), ways
    files = context.known.files
    if isinstance(given.write, dict):
        default, pod = context.static_pod(given.write, how)
        file = given.file or default
        files[file] = None
        return ChangeManifest(nodes, how, file, pod)
    if given.file:
        raise context.error("file", "'file' goes with 'write'")
    file = getattr(given, how)
    if file not in files:
        near = suggestion(file, [*files], first_names([*files], "file"))
        raise context.error(how, f"no file of a static pod is called {file!r}", near)
    return ChangeManifest(nodes, how, file)


FAULT = Fault(
    name="manifest",
    parameters=Manifest,
    check=_check,
    documentation="""
The file of a static pod changes on the nodes; the agents notice it at once. A file is named as its pod, NAMESPACE.NAME
outside of `default`. A changed file is another pod, which starts when the old one has ended (checked each 10 to 15 s). A
spoiled file keeps its pod until the agent reads all files, each `file-check-frequency` (20s).""",
    example="""
- {at: 2m, manifest: {nodes: {zone: a}, write: {apiVersion: v1, kind: Pod, metadata: {name: logger}, spec: {containers: [{name: logger, image: "r/logger:2"}]}}}}
- {at: 3m, manifest: {nodes: {zone: a}, spoil: logger}}
- {at: 4m, manifest: {nodes: {zone: a}, remove: logger}}""",
)
