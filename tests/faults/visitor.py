"""A client that does no more than a socket does: it sends, reads when it likes, and may vanish."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Self
from urllib.parse import urlsplit

CHAT = "/v1/chat/completions"


class Visitor:
    """One connection with one chat request on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def ask(cls, url: str, *, buffer: int = 2**16, **fields: object) -> Self:
        """Connect to `url` and send the request; no more than about `buffer` bytes wait here to be read."""
        address = urlsplit(url)
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, (address.hostname, address.port))
        reader, writer = await asyncio.open_connection(sock=connection, limit=buffer)
        body = json.dumps({"temperature": 0, "messages": [{"role": "user", "content": "Hello"}], **fields}).encode()
        head = f"POST {CHAT} HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        return cls(reader, writer)

    async def read_events(self) -> list[bytes]:
        """Every event of a stream, up to the last."""
        events = []
        while (events[-1:]) != [b"data: [DONE]"]:
            line = await self._reader.readline()
            if line.startswith(b"data: "):
                events.append(line.strip())
        return events

    async def read_until(self, mark: bytes) -> bytes:
        """Everything up to `mark`."""
        return await self._reader.readuntil(mark)

    def vanish(self) -> None:
        """Cut the connection, without a goodbye."""
        self._writer.transport.abort()
