"""The page of a finished run as one HTML file: its scripts, styles and data in it.

Turns the modules of the page into one script without imports, and the data of a run into JSON that
the page finds beside it.

Holds: the file loads nothing; its policy names the hashes of its one script and its one style, so
that nothing else of it is executed, also if an object has the name of a script.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Any

import msgspec

from sim.patterns import pattern

_IMPORT = pattern(r'^import (.+?) from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = pattern(r"^export ((?:async )?(?:function|class|const) ([\w$]+))", re.MULTILINE)
_LOADED = pattern(r'<(?:link rel="stylesheet"|script)[^>]*>(?:</script>)?\n')


def page_of(run: Mapping[str, Any]) -> bytes:
    """The file.  run: what `app.js` reads (`openFile`), with rows as `sim.app.control.rows`."""
    entry = {
        file.name: file.read_text(encoding="utf-8") for file in (files(__package__) / "static").iterdir()
    }
    scripts = {name.removesuffix(".js"): text for name, text in entry.items() if name.endswith(".js")}
    script, style = f"\n{bundled(scripts, 'app')}\n", f"\n{entry['page.css']}"
    data = msgspec.json.encode(run).replace(b"<", b"\\u003c").decode()
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>{style}</style>\n'
    body = f'<script type="application/json" id="run-data">{data}</script>\n<script type="module">{script}</script>\n'
    html = _LOADED.sub("", entry["index.html"])
    begin, middle, rest = html.partition("</head>")
    content, end, last = rest.partition("</body>")
    return "".join([begin, head, middle, content, body, end, last]).encode()


def bundled(modules: Mapping[str, str], first: str) -> str:
    """The modules that one needs, as one script: each is a function that gives what it exports."""
    done: dict[str, str] = {}

    def add(name: str) -> None:
        text = modules[name]
        for _, needed in _IMPORT.findall(text):
            if needed not in done:
                add(needed)
        text = _IMPORT.sub(_taken, text)
        entry = ", ".join(name for _, name in _EXPORT.findall(text))
        text = _EXPORT.sub(r"\1", text)
        done[name] = f"const {name}$ = (() => {{\n{text}return {{ {entry} }};\n}})();"

    add(first)
    return "\n".join(done.values())


def _taken(found: re.Match[str]) -> str:
    """An import as a constant."""
    return f"const {found[1].removeprefix('* as ')} = {found[2]}$;"


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
