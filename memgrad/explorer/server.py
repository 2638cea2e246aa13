"""The page over HTTP, for browsers that may not read it as a file. Only this machine can reach it."""

from __future__ import annotations

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from memgrad.explorer import PAGE

HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""The host names that the server accepts."""

HTTP_PORT = 80
"""The port that browsers leave out."""


class _OnePage(BaseHTTPRequestHandler):
    """Serves the page at `/` and nothing else, and only under this machine's own names."""

    def do_GET(self) -> None:
        """Send the page; its headers alone if the method is HEAD."""
        # A site that lets its own name point to 127.0.0.1 (DNS rebinding) could otherwise talk to this server.
        if not self._is_named():
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return
        if self.path.partition("?")[0] not in ("/", "/index.html"):
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        page = PAGE.read_bytes()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(page)

    do_HEAD = do_GET  # noqa: N815  # the name is the standard library's

    def _is_named(self) -> bool:
        """Whether there is one Host, and it is a name of this machine with the server's port."""
        hosts = self.headers.get_all("Host", [])
        port = self.connection.getsockname()[1]
        names = {f"{name}:{port}" for name in HOSTS} | (set(HOSTS) if port == HTTP_PORT else set())
        return len(hosts) == 1 and hosts[0].strip().lower() in names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the standard library's
        """Log nothing: the terminal is for the user."""


def loopback(port: int = 0) -> ThreadingHTTPServer:
    """A server of the page on 127.0.0.1, which its caller runs and closes.

    Args:
        port: The port; 0 takes any that is free.

    Example:
        >>> with loopback() as server:
        ...     server.server_address[0]
        '127.0.0.1'
    """
    return ThreadingHTTPServer(("127.0.0.1", port), _OnePage)
