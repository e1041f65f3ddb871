"""Clients' protocols for streams to containers: channels over WebSocket, streams over SPDY.

`codec` is what they have in common, `agreement` chooses one for a request, `websocket_channels`,
`spdy_streams` and `tunnel` are the protocols, and `carrying` moves the bytes.
"""
