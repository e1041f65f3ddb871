"""Service controller: load balancers of services."""
