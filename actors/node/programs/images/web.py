"""Web servers that serve files: nginx and httpd with the settings of their images.

Mirrors  the images nginx 1.23 and httpd 2.4: port, folder of documents, format of the access log.
Differs  configuration files are not read.
"""

from __future__ import annotations

from collections.abc import Generator
from email.utils import formatdate
from functools import partial
from posixpath import normpath
from urllib.parse import unquote

from actors.node.programs.ends import send
from actors.node.programs.files.errors import FileError
from actors.node.programs.network.http import Request, Response, header, serve
from actors.node.programs.network.sockets import Connection, SocketError
from actors.node.programs.network.tasks import Tasks
from actors.node.programs.process import Process
from actors.node.programs.waits import Main, Wait
from sim.units import SECOND

KINDS = {
    "css": "text/css", "html": "text/html", "js": "application/javascript", "json": "application/json",
    "png": "image/png", "txt": "text/plain", "xml": "text/xml",
}  # fmt: skip


def document(process: Process, root: str, path: str) -> bytes | int:
    """The document of a path, or the code of the error."""
    name = f"{root}{normpath('/' + unquote(path).lstrip('/'))}".rstrip("/")
    try:
        if process.container.files.lookup(name, process).kind == "d":
            name += "/index.html"
        return bytes(process.container.files.read(name, process))
    except FileError as error:
        return 403 if error.code == "EACCES" else 404


def kind_of(path: str) -> str:
    """The type of a document by its name."""
    last = path.rpartition("/")[2]
    return KINDS.get(last.rpartition(".")[2] if "." in last else "html", "application/octet-stream")


def date_of(process: Process) -> str:
    """The time as HTTP writes it."""
    return formatdate(process.container.wall_us(process.now_us) // SECOND, usegmt=True)


def access_line(process: Process, request: Request, response: Response) -> str:
    """A line of the access log in the combined format."""
    words = date_of(process).replace(",", "").split()
    when = f"{words[1]}/{words[2]}/{words[3]}:{words[4]} +0000"
    agent = header(request.headers, "user-agent") or "-"
    came_from = header(request.headers, "referer") or "-"
    host = request.peer.rpartition(":")[0]
    line = f'{host} - - [{when}] "{request.method} {request.target} HTTP/1.1" {response.code}'
    return f'{line} {len(response.body)} "{came_from}" "{agent}"\n'


def _files(process: Process, root: str, name: str, request: Request) -> Generator[Wait, None, Response]:
    if request.method not in ("GET", "HEAD"):
        found: bytes | int = 405
    else:
        found = document(process, root, request.path)
        if found == 404 and request.path == "/":
            found = (
                b"<html><head><title>Welcome to nginx!</title></head><body><h1>Welcome to nginx!</h1></body></html>\n"
                if name.startswith("nginx")
                else b"<html><body><h1>It works!</h1></body></html>\n"
            )
    if isinstance(found, int):
        title = f"{found} {Response(found).phrase}"
        text = f"<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n"
        text += f"<hr><center>{name}</center>\r\n</body>\r\n</html>\r\n"
        response = Response(found, text.encode(), (("Content-Type", "text/html"),))
    else:
        response = Response(200, found, (("Content-Type", kind_of(request.path)),))
    yield from send(process.ends[1], access_line(process, request, response).encode())
    return response


def _serve(process: Process, root: str, name: str, port: int = 80) -> Main:
    def connected(connection: Connection) -> Generator[Wait, None, None]:
        yield from serve(
            connection, partial(_files, process, root, name), lambda: process.now_us,
            lambda: (("Server", name), ("Date", date_of(process))),
        )  # fmt: skip

    tasks = Tasks(process)
    try:
        tasks.listen(port, connected)
    except SocketError as error:
        number = 13 if error.code == "EACCES" else 98
        text = f"[emerg] bind() to 0.0.0.0:{port} failed ({number}: {error.text})\n"
        yield from send(process.ends[2], f"{name.partition('/')[0]}: {text}".encode())
        return 1
    return (yield from tasks.run())


def nginx(process: Process) -> Main:
    """Serve the documents of the image, or those of volumes in their place."""
    image = process.container.image
    is_bitnami = "bitnami" in image
    usual = "8080" if is_bitnami or "unprivileged" in image else "80"
    port = int((process.env.get("NGINX_HTTP_PORT_NUMBER") if is_bitnami else "") or usual)
    root = "/app" if is_bitnami else "/usr/share/nginx/html"
    return (yield from _serve(process, root, "nginx/1.23.1", port))


def httpd(process: Process) -> Main:
    """Serve the documents of the image, or those of volumes in their place."""
    return (yield from _serve(process, "/usr/local/apache2/htdocs", "Apache/2.4.54 (Unix)"))
