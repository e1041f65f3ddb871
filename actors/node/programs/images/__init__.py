"""Known servers and tools of images, besides the common commands.

`PROGRAMS` has the program of each.  `ASLEEP` names servers that start when the first connection
comes: a container that only runs one of them costs nothing until then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from actors.node.programs.images import agnhost, agnhost_apps, agnhost_net, hooks, postgres, redis, web
from actors.node.programs.process import Process
from actors.node.programs.waits import Main

ASLEEP: Mapping[str, int] = {
    "nginx": 80, "httpd-foreground": 80, "postgres": postgres.PORT, "redis-server": redis.PORT,
}  # fmt: skip
PROGRAMS: Mapping[str, Callable[[Process], Main]] = {
    "nginx": web.nginx,
    "httpd-foreground": web.httpd,
    "agnhost": partial(agnhost.agnhost, more={**agnhost_apps.APPS, **agnhost_net.TESTS}),
    "ctl": hooks.startup_api_check,
    "kube-webhook-certgen": hooks.certgen,
    "pg_isready": postgres.pg_isready,
    "postgres": postgres.postgres,
    "psql": postgres.psql,
    "startupapicheck": hooks.startup_api_check,
    "redis-cli": redis.redis_cli,
    "redis-server": redis.redis_server,
}
