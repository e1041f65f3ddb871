"""Authentication and authorization of requests.

An authenticator turns a credential into a user; an authorizer has an opinion of a user and an
action: allow, deny, or none. The first that has one decides.
"""
