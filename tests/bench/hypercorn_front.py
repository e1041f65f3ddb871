"""The command line with a server that reads HTTP/1.1 by hypercorn, to compare the two.

python -m tests.bench.hypercorn_front serve ...
"""

from __future__ import annotations

import sys
from typing import Any

from sim.app.cli.main import main
from sim.app.serving import serve
from sim.wire.http.fronts.server import serve_at


async def by_hypercorn(*arguments: Any, **more: Any) -> None:
    """As `serve_at`."""
    await serve_at(*arguments, direct=False, **more)


if __name__ == "__main__":
    serve.serve_at = by_hypercorn  # type: ignore[assignment]
    sys.exit(main())
