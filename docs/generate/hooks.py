"""Hooks of MkDocs: the generated pages join the site, with their titles in the navigation.

MkDocs calls the functions by their names (https://www.mkdocs.org/dev-guide/plugins/#events).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parents[2]))
from docs.generate.pages import generated_pages, navigation


def on_config(config: Any) -> Any:
    """Complete the navigation with the pages of the folders."""
    config.nav = [*config.nav, *navigation()]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    for path, text in generated_pages().items():
        files.append(File.generated(config, path, content=text))
    return files
