"""API objects as protobuf messages, and back, for bodies, answers, watches and the storage."""
