#!/usr/bin/env python3
"""A TCP server on loopback: feed.py BYTES_PER_SECOND. Prints its port. A client sends a 4-byte length and gets as many bytes."""

import socket
import struct
import sys
import threading
import time

RATE = float(sys.argv[1])
CHUNK = bytes(1 << 16)
turn = threading.Lock()  # one sender at a time: the rate is that of the whole server


def answer(conn):
    with conn:
        want = conn.recv(4, socket.MSG_WAITALL)
        left = struct.unpack("!I", want)[0] if len(want) == 4 else 0
        try:
            while left:
                n = min(left, len(CHUNK))
                with turn:
                    time.sleep(n / RATE)
                conn.sendall(CHUNK[:n])
                left -= n
        except OSError:
            return  # the client is gone


server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    conn, _ = server.accept()
    threading.Thread(target=answer, args=(conn,), daemon=True).start()
