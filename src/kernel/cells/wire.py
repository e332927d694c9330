"""Frames between the interpreter and the process that started it; the C side is kernel/frame.h.

A frame is a head (length of the rest, type, flags, id; little endian) and fields: numbers of four
bytes, texts and bytes behind their length.
"""
import _signal as signal
import _thread
import os
import struct

RUN, ENV, COPY, QUIESCE = 1, 2, 3, 4
READY, DISPLAY, ERROR, DONE, COPIED, QUIESCED = 128, 129, 130, 131, 132, 133
MAIN = 1  # flag of DISPLAY: the value of the last expression
LIVE = 1  # flag of READY: it goes on where another kernel was
HEAD = struct.Struct("<IHHI")
FRAME_MAX = 64 << 20


def pack(kind, ident, fields, flags=0):
    parts = [b""]
    for field in fields:
        if isinstance(field, int):
            parts.append(struct.pack("<I", field))
            continue
        if isinstance(field, str):
            field = field.encode("utf-8", "replace")
        parts += struct.pack("<I", len(field)), field
    parts[0] = HEAD.pack(sum(map(len, parts)), kind, flags, ident)
    return b"".join(parts)


class Channel:
    """The socket to the caller. A frame that was begun is always completed: any thread may display
    something, and an interrupt may come at any time."""

    def __init__(self, fd):
        self.fd = fd
        self.lock = _thread.allocate_lock()

    def send(self, kind, ident, fields, flags=0):
        data = memoryview(pack(kind, ident, fields, flags))
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            with self.lock:
                while data:
                    data = data[os.write(self.fd, data):]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _read(self, count):
        data = bytearray()
        while len(data) < count:
            part = os.read(self.fd, count - len(data))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def receive(self):
        size, kind, _, ident = HEAD.unpack(self._read(HEAD.size))
        if size > FRAME_MAX:
            raise EOFError
        return kind, ident, Fields(self._read(size))


class Fields:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self):
        (value,) = struct.unpack_from("<I", self.data, self.at)
        self.at += 4
        return value

    def text(self):
        size = self.number()
        self.at += size
        return self.data[self.at - size:self.at].decode("utf-8", "surrogateescape")
