"""Protobuf encoding: field numbers of the served kinds, and the wire format.

Numbers and types of fields come from descriptors of the served kinds; an unknown field is skipped,
as upstream does.
"""
