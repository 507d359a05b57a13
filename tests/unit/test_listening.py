"""How the app listens: small pieces are sent at once."""

from __future__ import annotations

import socket

from myserve_ui.server.launch import _listen


def test_connections_do_not_collect_small_pieces() -> None:
    with (
        _listen("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()) as client,
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert client.getpeername() == accepted.getsockname()
