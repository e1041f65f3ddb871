"""The scenarios that come with Orrery, wherever it is installed.

A wheel carries them below the package `orrery`; in a checkout they are beside that package.
"""

from __future__ import annotations

from pathlib import Path

from sim.errors import InputError, suggestion

HERE = Path("scenarios")


def shipped(folder: str) -> Path:
    """The folder "scenarios" or "notebooks" that comes with Orrery."""
    beside = Path(__file__).parents[3]  # the folder of the packages
    inside = beside / "orrery" / folder
    return inside if inside.is_dir() else beside / folder


def scenarios_folder() -> Path:
    """The folder `scenarios` where the user is if it holds any, else the one that comes along."""
    return HERE if any(HERE.glob("*.yaml")) else shipped("scenarios")


def scenario_path(given: Path) -> Path:
    """The file that a user means: a path, or the name of a scenario that comes along.

    Raises InputError for a bare name that is neither.
    """
    text = str(given)
    folder = shipped("scenarios")
    if given.exists() or not text:
        return given
    if given.parent != Path() or given.suffix in (".yaml", ".yml"):
        if not given.parent.is_dir() or given.parent == HERE:
            names = sorted(path.stem for path in folder.glob("*.yaml"))
            if given.stem in names:
                raise InputError(
                    "no such file", text, f"the package has that scenario: orrery run {given.stem}"
                )
            if hint := suggestion(given.stem, names):
                raise InputError("no such file", text, f"{hint} orrery run NAME runs one of the package")
        return given
    found = folder / f"{text}.yaml"
    if found.is_file():
        return found
    known = sorted(path.stem for path in folder.glob("*.yaml"))
    hint = suggestion(text, known) or "orrery list shows the scenarios of the package"
    raise InputError("there is no such file, and no scenario of this name", text, hint)
