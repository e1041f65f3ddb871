"""`python -m sim.app.cli` runs the orrery command."""

from __future__ import annotations

import sys

from sim.app.cli.main import main

sys.exit(main())
