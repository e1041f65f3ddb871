"""The EndpointSlice mirroring loop."""
