"""A start command of test_designs.py: PORT SPEC ENGINE_PORT. Keeps the engine that is lent at PORT until it is told to
end, and ends when the engine has."""

import signal
import socket
import sys

with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as lender:
    signal.signal(signal.SIGTERM, lambda *_: lender.shutdown(socket.SHUT_WR))
    lender.sendall(" ".join(sys.argv[2:]).encode() + b"\n")
    while lender.recv(1):
        pass
