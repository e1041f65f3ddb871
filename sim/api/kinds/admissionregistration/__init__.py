"""Kinds of the group admissionregistration."""
