"""Fast paths of clients: coalesced calls, read-modify-write and lease renewal.

They are used while nothing is in the way that the ordinary path would meet: no fault, no full
queue, no limit. Both give the same records.
"""
