"""How the socket is set up: small writes go out at once."""

import asyncio
import socket

from myserve_ui.server.launch import listen


async def test_a_connection_does_not_wait_for_receipts():
    accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def see(_reader, writer):
        option = writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        accepted.set_result(option)
        writer.close()

    listener = listen("127.0.0.1", 0)
    async with await asyncio.start_server(see, sock=listener):
        _, writer = await asyncio.open_connection(*listener.getsockname())
        assert await accepted
        writer.close()
        await writer.wait_closed()
