"""API server replicas.

A replica has no state that its storage does not have, besides watch caches and counters, so that a
crash loses nothing that was answered. A request passes authorization, limits and seats here, and
its verb (`sim.api.verbs`) says what it does.
"""

from actors.apiserver.options import ApiServerOptions
from actors.apiserver.ports import Authorizer
from actors.apiserver.server import ApiServer

__all__ = ["ApiServer", "ApiServerOptions", "Authorizer"]
