"""Protobuf encoding: field numbers of the served kinds, and the wire format."""
