"""The way of a request from outside: a chain of stages, one file each, in upstream's order.

An `HttpRequest` passes through the stages.  Each reads what the stages before it have found, and
notes its own finding or answers the request, which ends the chain; `front` composes them and
finishes each answer.  A stage that a server does not need is not composed, and a stage that has
nothing to do returns at its first line.

The order is that of DefaultBuildHandlerChain: information (path, query), time-out, authentication,
audit, impersonation, fairness, authorization; then that of the handlers: servers behind
APIServices, documents, route, form, body, the API server behind the gate, answer.
"""
