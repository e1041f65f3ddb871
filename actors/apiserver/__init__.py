"""API server replicas."""

from actors.apiserver.options import ApiServerOptions
from actors.apiserver.server import AllowAll, ApiServer, Authorizer

__all__ = ["AllowAll", "ApiServer", "ApiServerOptions", "Authorizer"]
