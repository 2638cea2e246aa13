"""The page over HTTP, for browsers that may not read it as a file. Nobody but this machine can reach it."""

from __future__ import annotations

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from memgrad.explorer import PAGE


class _OnePage(BaseHTTPRequestHandler):
    """Answers `/` with the page, and nothing else."""

    def do_GET(self) -> None:
        """Send the page."""
        if self.path.partition("?")[0] not in ("/", "/index.html"):
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        page = PAGE.read_bytes()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is the standard library's
        """Say nothing: a terminal is not a log."""


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
