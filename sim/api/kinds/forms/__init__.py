"""Kinds that are served in several versions and stored in one."""
