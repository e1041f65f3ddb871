"""`python -m orrery`: the command `orrery`."""

from __future__ import annotations

import sys

from sim.app.start import main

if __name__ == "__main__":
    sys.exit(main())
