"""A node that follows docs/sources.md, "Scrapper", and nothing else.

    node.py --ip 172.18.0.4 --peers 172.18.0.3:8080,172.18.0.5:8080 [--port 8080]

Every frame it sends or receives, and each change of its boss, is a line of JSON
on standard output. It reads commands from standard input: "boss" prints whom it
takes for the boss.
"""
import argparse
import ipaddress
import json
import socket
import struct
import sys
import threading
import time

parser = argparse.ArgumentParser()
parser.add_argument("--ip", required=True)
parser.add_argument("--port", type=int, default=8080)
parser.add_argument("--peers", required=True)
parser.add_argument("--type", default="scrapper")
parser.add_argument("--older", action="store_true", help="announce by identification, not new_boss")
parser.add_argument("--wait", type=float, default=3.0)
parser.add_argument("--beat", type=float, default=30.0)
parser.add_argument("--death", type=float, default=90.0)
args = parser.parse_args()

lock = threading.RLock()
printing = threading.Lock()
known = {}  # ip -> port
boss = None  # ip
boss_conn = None
subordinates = {}
i_am_boss = False
electing = False


def log(**line):
    with printing:
        print(json.dumps(line), flush=True)


def value(ip):
    return int(ipaddress.ip_address(ip))


def send(conn, to, message):
    body = json.dumps(message).encode()
    conn.sendall(struct.pack("!H", len(body)) + body)
    log(sent=message["type"], to=to, **{k: message[k] for k in ("is_boss", "is_temporary") if k in message})


def exactly(conn, n):
    data = b""
    while len(data) < n:
        more = conn.recv(n - len(data))
        if not more:
            return None
        data += more
    return data


def receive(conn, sender):
    head = exactly(conn, 2)
    if head is None:
        return None
    body = exactly(conn, struct.unpack("!H", head)[0])
    if body is None:
        return None
    message = json.loads(body)
    log(received=message["type"], sender=sender, **{k: message[k] for k in ("is_boss", "is_temporary") if k in message})
    return message


def dial(ip):
    conn = socket.socket()
    conn.settimeout(args.wait)
    conn.bind((args.ip, 0))
    conn.connect((ip, known[ip]))
    return conn


def identification(temporary):
    return {"type": "identification", "node_type": args.type, "ip": args.ip, "port": args.port,
            "is_boss": i_am_boss, "is_temporary": temporary}


def higher():
    return sorted((ip for ip in known if value(ip) > value(args.ip)), key=value, reverse=True)


def call_elections():
    global electing
    with lock:
        if electing:
            return
        electing = True
    log(calls="election", higher=higher())
    try:
        for ip in higher():
            try:
                with dial(ip) as conn:
                    send(conn, ip, {"type": "election", "ip": args.ip, "port": args.port})
                    answer = receive(conn, ip)
                    if answer and answer["type"] == "election_response":
                        return  # a higher one lives: wait for the new boss
                    log(silent=ip)
            except OSError as why:
                log(unreachable=ip, why=str(why))
    finally:
        electing = False
    become_boss()


def become_boss():
    global i_am_boss, boss, boss_conn
    with lock:
        i_am_boss, boss = True, args.ip
        if boss_conn:
            boss_conn.close()
            boss_conn = None
    log(boss=args.ip)
    for ip in sorted(known, key=value, reverse=True):
        threading.Thread(target=announce, args=(ip,), daemon=True).start()


def announce(ip):
    try:
        with dial(ip) as conn:
            if args.older:
                send(conn, ip, identification(True))
                receive(conn, ip)
            else:
                send(conn, ip, {"type": "new_boss", "node_type": args.type, "ip": args.ip, "port": args.port})
    except OSError as why:
        log(unreachable=ip, why=str(why))


def follow(ip):
    """Registers a boss, and keeps a connection with it alone."""
    global i_am_boss, boss, boss_conn
    if value(ip) < value(args.ip):
        threading.Thread(target=call_elections, daemon=True).start()
        return
    with lock:
        if boss == ip and boss_conn:
            return
        i_am_boss, boss = False, ip
        if boss_conn:
            boss_conn.close()
        for conn in subordinates.values():
            conn.close()
        subordinates.clear()
        try:
            boss_conn = conn = dial(ip)
            send(conn, ip, identification(False))
        except OSError as why:
            log(unreachable=ip, why=str(why))
            boss = boss_conn = None
    if boss is None:  # it announced itself and went: without an election nobody would lead
        threading.Thread(target=call_elections, daemon=True).start()
        return
    log(boss=ip)
    threading.Thread(target=subordinate, args=(conn, ip), daemon=True).start()


def beat(conn, ip):
    while True:
        time.sleep(args.beat)
        try:
            send(conn, ip, {"type": "heartbeat", "my_id": args.ip, "is_busy": False})
        except OSError:
            return


def subordinate(conn, ip):
    global boss, boss_conn
    threading.Thread(target=beat, args=(conn, ip), daemon=True).start()
    conn.settimeout(args.death)
    try:
        while receive(conn, ip):
            pass
    except OSError:
        pass
    with lock:
        if boss_conn is not conn:
            return
        boss = boss_conn = None
    log(lost=ip)
    call_elections()


def serve(conn, sender):
    global i_am_boss
    with conn:
        conn.settimeout(args.wait)
        message = receive(conn, sender)
        if not message:
            return
        kind = message["type"]
        if kind == "identification":
            known[message["ip"]] = message["port"]
            if message.get("is_temporary"):
                send(conn, sender, identification(True))
            if message["is_boss"]:
                follow(message["ip"])
            elif not message.get("is_temporary") and i_am_boss:
                lead(conn, message["ip"])
        elif kind == "election":
            if value(args.ip) > value(message["ip"]):
                send(conn, sender, {"type": "election_response", "ip": args.ip, "port": args.port})
                conn.close()
                call_elections()
        elif kind == "new_boss":
            known[message["ip"]] = message["port"]
            follow(message["ip"])


def lead(conn, ip):
    subordinates[ip] = conn
    send(conn, ip, identification(False))
    send(conn, ip, {"type": "status_update", "ip": {"any": ["thing"]}, "port": "none"})
    send(conn, ip, {"type": "task", "id": 7})
    conn.settimeout(args.death)
    threading.Thread(target=beat, args=(conn, ip), daemon=True).start()
    try:
        while receive(conn, ip):
            pass
    except OSError:
        pass
    log(subordinate_lost=ip)


def guarded(conn, sender):
    try:
        serve(conn, sender)
    except OSError as why:
        log(error=str(why))


def accept(listener):
    while True:
        conn, address = listener.accept()
        threading.Thread(target=guarded, args=(conn, address[0]), daemon=True).start()


def start():
    for peer in args.peers.split(","):
        ip, _, port = peer.rpartition(":")
        known[ip] = int(port)
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((args.ip, args.port))
    listener.listen(64)
    log(listening=args.ip)
    threading.Thread(target=accept, args=(listener,), daemon=True).start()
    for ip in higher():  # who is the boss?
        try:
            with dial(ip) as conn:
                send(conn, ip, identification(True))
                answer = receive(conn, ip)
                if answer and answer["is_boss"]:
                    follow(ip)
                    return
        except OSError:
            pass
    call_elections()


start()
for line in sys.stdin:
    log(asked=line.strip(), boss=boss, i_am_boss=i_am_boss)
