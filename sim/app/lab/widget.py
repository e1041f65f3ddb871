"""The cluster widget: nodes and pods as a coloured grid, with a slider over time (anywidget).

The data is the recording of a lab; the program in the browser is plain JavaScript in `widget.js`, which
needs no network.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sim.app.lab.recording import Grid, Row, Seen, as_text, grid, shared

SCRIPT = Path(__file__).with_name("widget.js")


def cluster_widget(changes: Sequence[Seen], end_s: float) -> Any:
    """The widget of a recording up to an instant; without the package anywidget its text."""
    try:
        import anywidget
        import traitlets
    except ModuleNotFoundError:
        return Grid(tuple(changes), end_s)

    class ClusterWidget(anywidget.AnyWidget):
        """Nodes and pods over time.

        changes: the recording, as lists of instant, kind, name, place and state
        at_s: the instant that is shown, which the slider moves
        end_s: the end of the recording
        """

        _esm = SCRIPT.read_text(encoding="utf-8")
        changes: Any = traitlets.List().tag(sync=True)
        at_s = traitlets.Float().tag(sync=True)
        end_s = traitlets.Float().tag(sync=True)

        def grid(self) -> list[Row]:
            """The rows at the instant that is shown."""
            return grid([Seen(*each) for each in self.changes], self.at_s)

        def __repr__(self) -> str:
            return as_text([Seen(*each) for each in self.changes], self.at_s)

    return ClusterWidget(changes=shared(changes), at_s=end_s, end_s=end_s)
