"""The forms of bodies: which one is asked for, and JSON, YAML, protobuf, Tables to and from values."""
