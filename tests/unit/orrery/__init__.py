"""Pure parts of the package orrery."""
