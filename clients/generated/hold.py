"""hold.py URL: holds the election payroll through a client that openapi-python-client has generated, and prints how
it stands. clients/python is the client for programs; this one only tries the description of the API."""

import os
import sys
import threading
import time

import httpx
from batuta_agent import Client
from batuta_agent.api.default import report_ready, stand
from batuta_agent.models import Candidacy, Candidate, Error, Stand
from batuta_agent.types import UNSET

client = Client(base_url=sys.argv[1], timeout=httpx.Timeout(0.3))
mine, held, valid, owed = UNSET, None, 0.0, False


def lose(why):
    global held
    if held:
        print("lost", why, flush=True)
    held = None


def turn():
    global mine, held, valid, owed
    asked = time.monotonic()
    try:
        body = Stand(ttl="10s", candidacy=mine, released=True if owed else UNSET)
        answer = stand.sync_detailed("payroll", client=client, body=body)
    except httpx.HTTPError as e:
        if time.monotonic() > valid or not isinstance(e, httpx.TimeoutException):
            lose("no answer")
        return
    now = answer.parsed
    if isinstance(now, Error):
        if answer.status_code == 404:
            mine, owed = UNSET, False
        return lose(now.error)
    assert isinstance(now, Candidacy), now
    mine, valid, owed = now.candidacy, asked + now.valid_ms / 1000, False
    if now.state == "leading" and now.token != held:
        lose("another token")
        held = now.token
        print("leading", held, flush=True)
        try:
            ready = report_ready.sync("payroll", client=client, body=Candidate(candidacy=mine))
            if isinstance(ready, Error):
                print("ready:", ready.error, flush=True)
        except httpx.HTTPError:
            pass  # the next turn sees that the agent does not answer
    elif now.state == "lost":
        lose(now.cause)
        owed = True  # the work has stopped


threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
while True:
    turn()
    time.sleep(0.1)
