"""The scenarios that come with Orrery, wherever it is installed.

A wheel carries them below the package `orrery`; in a checkout they are beside that package.
"""

from __future__ import annotations

from pathlib import Path

from sim.errors import InputError, suggestion

HERE = Path("scenarios")
INCIDENTS = "incidents"  # the folder of those that follow a public report
# The clusters that `--like` serves, each a scenario of that name.
DISTRIBUTIONS = ("small-distribution",)


def distribution(name: str) -> Path:
    """The scenario of one of `DISTRIBUTIONS`."""
    return Path(__file__).parent / "distributions" / f"{name}.yaml"


def shipped(folder: str) -> Path:
    """The folder "scenarios" or "notebooks" that comes with Orrery."""
    beside = Path(__file__).parents[3]  # the folder of the packages
    inside = beside / "orrery" / folder
    return inside if inside.is_dir() else beside / folder


def scenarios_folder() -> Path:
    """The folder `scenarios` where the user is if it holds any, else the one that comes along."""
    return HERE if any(HERE.glob("*.yaml")) else shipped("scenarios")


def scenario_files(folder: Path) -> list[Path]:
    """The scenarios of a folder, and those of its folder of incidents."""
    return [*sorted(folder.glob("*.yaml")), *sorted(folder.glob(f"{INCIDENTS}/*.yaml"))]


def scenario_path(given: Path) -> Path:
    """The file that a user means: a path, or the name of a scenario that comes along.

    Raises InputError for a bare name that is neither.
    """
    text = str(given)
    if given.exists() or not text:
        return given
    named = {path.stem: path for path in scenario_files(shipped("scenarios"))}
    if given.parent != Path() or given.suffix in (".yaml", ".yml"):
        if not given.parent.is_dir() or given.parent == HERE:
            if given.stem in named:
                raise InputError(
                    "no such file", text, f"the package has that scenario: orrery run {given.stem}"
                )
            if hint := suggestion(given.stem, named):
                raise InputError("no such file", text, f"{hint} orrery run NAME runs one of the package")
        return given
    if text in named:
        return named[text]
    hint = suggestion(text, named) or "orrery list shows the scenarios of the package"
    raise InputError("there is no such file, and no scenario of this name", text, hint)
