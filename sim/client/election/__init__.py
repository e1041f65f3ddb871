"""Leader election over one lease, or over a lease and an older lock."""
