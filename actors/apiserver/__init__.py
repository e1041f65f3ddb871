"""API server replicas."""

from actors.apiserver.options import ApiServerOptions
from actors.apiserver.ports import Authorizer
from actors.apiserver.server import ApiServer

__all__ = ["ApiServer", "ApiServerOptions", "Authorizer"]
