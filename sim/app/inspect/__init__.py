"""Inspection of a run: causes, differences, traces and reports.

It reads a trace, of a run that has ended or of one that grows, and changes nothing.
"""
