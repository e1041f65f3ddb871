"""API requests over sockets and over HTTP.

The front turns bytes into a `Request` and a `Reply` into bytes. Limits in real time count only
while this process runs, so that a paused machine loses no answer.
"""
