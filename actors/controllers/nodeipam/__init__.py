"""Node IPAM controller: pod CIDRs of nodes."""
