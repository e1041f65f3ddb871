"""Scenario files: from YAML text to a checked plan.

Each step keeps the place of every value in the file, so that an error names line, column and
remedy. All errors are reported, not only the first.
"""
