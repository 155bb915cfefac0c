"""Watches a bridge: who connects to whom, and the frames of the boss protocol.

Each SYN and each frame is a line of JSON on standard output. It runs in the
network namespace of the bridge, whose ports it listens at.
"""
import json
import socket
import struct

ALL = 0x0003
OUTGOING = 4
RCVBUFFORCE = 33  # of Linux: beyond the system's limit
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
packets.setsockopt(socket.SOL_SOCKET, RCVBUFFORCE, 16 << 20)  # a busy machine lets the witness run seldom
streams = {}  # by both ends: the next sequence number, and the bytes not yet read
print(json.dumps({"listening": "bridge"}), flush=True)


def frames(ends, sequence, data):
    """The frames that end in this segment, however the stream was cut."""
    expected, rest = streams.get(ends, (sequence, b""))
    skip = (expected - sequence) & 0xffffffff
    if skip >= 1 << 31:  # something was missed: begin anew
        skip, rest = 0, b""
    if skip >= len(data) > 0:
        return  # sent again
    rest += data[skip:]
    streams[ends] = ((sequence + len(data)) & 0xffffffff, rest)
    while len(rest) > 2 and len(rest) >= 2 + struct.unpack("!H", rest[:2])[0]:
        size = struct.unpack("!H", rest[:2])[0]
        try:
            frame = json.loads(rest[2:2 + size])
        except ValueError:  # no frame of the boss protocol
            streams[ends] = ((sequence + len(data)) & 0xffffffff, b"")
            return
        rest = rest[2 + size:]
        streams[ends] = (streams[ends][0], rest)
        yield frame


while True:
    raw, (port, kind, way, _, _) = packets.recvfrom(70000)
    # Each packet comes in at exactly one port.
    if way == OUTGOING or kind != 0x0800 or not port.startswith("p") or raw[23] != 6:
        continue
    ip = raw[14:]
    head = (ip[0] & 15) * 4
    source, target = socket.inet_ntoa(ip[12:16]), socket.inet_ntoa(ip[16:20])
    tcp = ip[head:struct.unpack("!H", ip[2:4])[0]]
    way = f"{source}>{target}"
    ends, sequence = (source, target, tcp[:4]), struct.unpack("!I", tcp[4:8])[0]
    if tcp[13] & 0x02:  # SYN
        streams[ends] = ((sequence + 1) & 0xffffffff, b"")
        if not tcp[13] & 0x10:
            print(json.dumps({"dial": way}), flush=True)
        continue
    for frame in frames(ends, sequence, tcp[(tcp[12] >> 4) * 4:]):
        print(json.dumps({"frame": frame.get("type"), "way": way, "is_boss": frame.get("is_boss"),
                          "is_temporary": frame.get("is_temporary"), "batuta": "batuta" in frame}), flush=True)
