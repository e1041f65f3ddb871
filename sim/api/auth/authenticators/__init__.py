"""The authenticators: each turns one kind of credential into a user.

Each says which user sent the request, that the credential is not of its kind, or that it is wrong;
the union of them asks each in upstream's order.
"""
