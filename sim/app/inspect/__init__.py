"""Inspection of a run: causes, differences, traces and reports."""
