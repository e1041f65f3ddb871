"""The page of a run as one file: nothing is loaded, and only its own script is executed."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files
from typing import Any

import pytest

from sim.app.page.one_file import bundled, page_of

HOSTILE = "</script><script>alert(1)</script><!--"


class Parts(HTMLParser):
    """The scripts and styles of a page with their texts, its policy, and what it would load."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: dict[str, str] = {}
        self.styles: list[str] = []
        self.policy = ""
        self.loaded: list[str] = []
        self._at = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attrs}
        self._at = f"{tag} {found.get('type', '')}"
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"]
        self.loaded += [found[key] for key in ("src", "href") if key in found]

    def handle_endtag(self, tag: str) -> None:
        self._at = ""

    def handle_data(self, data: str) -> None:
        kind, _, media = self._at.partition(" ")
        if kind == "script":
            assert media not in self.scripts
            self.scripts[media] = data
        elif kind == "style":
            self.styles.append(data)


def parts_of(run: dict[str, Any]) -> Parts:
    parts = Parts()
    parts.feed(page_of(run).decode())
    return parts


def test_page_executes_only_the_script_that_its_policy_names() -> None:
    parts = parts_of({"rows": [], "scenario": HOSTILE})
    assert parts.loaded == ["data:,"]  # no icon
    (style,) = parts.styles
    assert set(parts.scripts) == {"application/json", "module"}
    for text in (parts.scripts["module"], style):
        assert f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" in parts.policy
    assert parts.policy.startswith("default-src 'none';")


def test_data_of_a_run_is_not_changed_by_hostile_names() -> None:
    run = {"rows": [["node", 1, HOSTILE, "\u2028é", "ready"]]}
    assert json.loads(parts_of(run).scripts["application/json"]) == run


def test_bundle_has_each_module_once_after_those_that_it_needs() -> None:
    modules = {
        "a": 'import * as b from "./b.js";\nimport { $, C } from "./c.js";\nb.f($, C);\n',
        "b": 'import { C } from "./c.js";\nexport async function f() { return C; }\n',
        "c": "export const $ = 1;\nexport class C {}\n",
        "d": "never();\n",
    }
    text = bundled(modules, "a")
    assert re.findall(r"^const (\w)\$ =", text, re.MULTILINE) == ["c", "b", "a"]
    assert "const b = b$;\nconst { $, C } = c$;\n" in text
    assert "return { $, C };" in text
    assert "never" not in text


SCRIPTS = [file for file in (files("sim.app.page") / "static").iterdir() if file.name.endswith(".js")]


@pytest.mark.parametrize("file", SCRIPTS, ids=lambda file: str(file.name))
def test_modules_of_the_page_are_written_so_that_they_can_be_bundled(file: Any) -> None:
    text = file.read_text(encoding="utf-8")
    module = bundled({"x": re.sub(r"^import .*\n", "", text, flags=re.MULTILINE)}, "x")
    assert not re.search(r"^\s*(import|export)\b", module, re.MULTILINE)
    assert "</script" not in text
    assert "innerHTML" not in text
