"""Fast paths of clients: coalesced calls, read-modify-write and lease renewal."""
