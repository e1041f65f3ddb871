"""The terminal, as results and displays are written to it.

Holds: names of expectations and files are printed literally, and control characters by their
pictures.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from sim.app.process.printed import visible
from sim.app.screen.keys import in_front

PLAIN_WIDTH = 120  # columns of an output that is not a terminal


class PlainConsole(Console):
    """A console without markup: "[zone a]" and ":warning:" are text."""

    def __init__(self, width: int | None = None, stderr: bool = False) -> None:
        super().__init__(width=width, stderr=stderr, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """The segments of a renderable, made visible."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)

    def on_broken_pipe(self) -> None:
        """Let this program choose its exit status; rich would exit with that of a failed run."""
        raise BrokenPipeError


def plain_table(*columns: str, title: str | None = None, header: bool = True) -> Table:
    """A table without lines, as all commands print it.

    columns: those that need no more than a name
    """
    table = Table(box=None, pad_edge=False, show_header=header, title=title)
    table.title_justify, table.title_style = "left", "bold"
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def terminal() -> Console:
    """The console for results: as wide as the terminal, or wide enough for every table here."""
    console = PlainConsole()
    return console if console.is_terminal else PlainConsole(width=max(console.width, PLAIN_WIDTH))


def has_room(console: Console) -> bool:
    """True if a console is a terminal that can show a view, and this process has it."""
    return console.is_terminal and not console.is_dumb_terminal and in_front(console.file.fileno())
