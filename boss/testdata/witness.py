"""Watches a bridge: who connects to whom, and the frames of source 002.

Each SYN and each frame is a line of JSON on standard output. It runs in the
network namespace of the bridge, whose ports it listens at.
"""
import json
import socket
import struct

ALL = 0x0003
OUTGOING = 4
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
print(json.dumps({"listening": "bridge"}), flush=True)


def frames(data):
    while len(data) > 2:
        size = struct.unpack("!H", data[:2])[0]
        try:
            yield json.loads(data[2:2 + size])
        except ValueError:
            return
        data = data[2 + size:]


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
    if tcp[13] & 0x12 == 0x02:
        print(json.dumps({"dial": way}), flush=True)
    for frame in frames(tcp[(tcp[12] >> 4) * 4:]):
        print(json.dumps({"frame": frame.get("type"), "way": way, "is_boss": frame.get("is_boss"),
                          "is_temporary": frame.get("is_temporary"), "batuta": "batuta" in frame}), flush=True)
