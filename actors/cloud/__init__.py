"""The simulated cloud.

It keeps what a cloud provider would: load balancers of services, and routes. Its instances are the
machines of the cluster.
"""
