"""API server replicas."""

from actors.apiserver.server import AllowAll, ApiServer, ApiServerOptions, Authorizer

__all__ = ["AllowAll", "ApiServer", "ApiServerOptions", "Authorizer"]
