"""The EndpointSlice loop."""
