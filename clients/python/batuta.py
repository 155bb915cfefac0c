"""Leadership from the batuta agent on this machine. One file; it needs only the standard library.

    import batuta

    def work(lead):
        while not lead.wait(1):      # False after 1 s; True at once when the leadership is over
            write(fence=lead.token)

    batuta.Agent("127.0.0.1:7500").lead("payroll", work)

The work runs in a thread of its own. After a loss it must return. Only then is the loss acknowledged, and
only then another member leads. If the agent dies or freezes, lead.wait() ends before others may begin
(with --algorithm quorum; with best effort they may begin earlier).

From a shell:  python3 batuta.py --agent 127.0.0.1:7500 payroll -- ./worker
"""

import argparse
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

MARGIN = 0.2  # part of the valid time that is left for the work to notice the end
PAUSE = 0.2  # seconds between two questions, at most


class Refused(Exception):
    """The agent answers with an error: code is its HTTP status."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class _Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Agent:
    """An agent: HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:PATH. token is for --http-token-file."""

    def __init__(self, address="127.0.0.1:7500", token=None, context=None):
        self.address, self.token, self.context = address, token, context

    def _connect(self, timeout):
        if self.address.startswith("unix:"):
            c = _Unix("localhost", timeout=timeout)
            c.path = self.address[len("unix:") :]
            return c
        scheme, _, host = self.address.rpartition("://")
        host = host.rstrip("/")
        if scheme == "https":
            return http.client.HTTPSConnection(host, timeout=timeout, context=self.context)
        return http.client.HTTPConnection(host, timeout=timeout)

    def _ask(self, method, path, body, timeout, headers=()):
        head = {"Content-Type": "application/json", **dict(headers)}
        if self.token:
            head["Authorization"] = "Bearer " + self.token
        c = self._connect(timeout)
        try:
            c.request(method, path, None if body is None else json.dumps(body), head)
            r = c.getresponse()
        except http.client.HTTPException as e:  # it ended within its answer
            c.close()
            raise ConnectionError(str(e)) from e
        except BaseException:
            c.close()
            raise
        return c, r

    def call(self, method, path, body=None, timeout=10):
        """Gives the answer to a call of the HTTP API. Raises Refused, or OSError if there is no answer."""
        c, r = self._ask(method, path, body, timeout)
        try:
            text = r.read()
            foreign = "the answer is not batuta's: " + text[:100].decode("utf-8", "replace")
            try:
                answer = json.loads(text)
            except ValueError:
                if r.status < 300:  # such as an answer that is cut short
                    raise ConnectionError(foreign)
                answer = {"error": foreign}
        except http.client.HTTPException as e:
            raise ConnectionError(str(e)) from e
        finally:
            c.close()
        if r.status >= 300:
            raise Refused(r.status, answer.get("error", r.reason))
        return answer

    def events(self, since=None, wait=30, **query):
        """Yields events without end, first the current view, or what follows an index. It goes on by itself
        when the agent is back: an event "reset" or "behind" reports what is missing."""
        while True:
            ask = {"wait": "%ds" % wait, **query, **({"since": since} if since else {})}
            try:
                c, r = self._ask("GET", "/v1/events?" + urllib.parse.urlencode(ask), None, wait + 10)
                try:
                    answer = json.loads(r.read())
                finally:
                    c.close()
                if r.status >= 300 and r.status < 500:
                    raise Refused(r.status, answer.get("error", r.reason))
                if r.status == 200:
                    yield from answer
                    since = r.headers["Batuta-Index"]
                    continue
            except (OSError, ValueError, http.client.HTTPException):
                pass
            time.sleep(PAUSE)

    def lead(self, election, work, ttl=10.0, stop=None, report=None, **options):
        """Runs work(lead) under each leadership of a named election. When work returns while it leads, the
        election is given away, and lead returns the same value. When the leadership is lost, lead waits for
        work to return, acknowledges, and is a candidate again. An exception of work ends it.

        ttl: seconds after which the agent gives the election away without a renewal, 1 to 300.
        stop: a threading.Event that ends it. report(text) is called with what it waits for, and again when that
        changes; the default prints nothing. options: weight, seats, prefer.
        Raises Refused if the agent refuses the candidacy for good.
        """
        path = "/v1/elections/%s/candidacy" % urllib.parse.quote(election, safe="")
        if not 1 <= ttl <= 300:
            raise ValueError("ttl is %g s: give 1 to 300" % ttl)
        stop = stop or threading.Event()
        told = None
        mine, owed, held = None, False, None  # the id; whether an acknowledgement is owed; what leads
        try:
            while not stop.is_set():
                asked, pause, turn, lost, why = time.monotonic(), PAUSE, None, None, None
                body = {"ttl": "%dms" % (ttl * 1000), **({"candidacy": mine} if mine else options)}
                if owed and mine:
                    body["released"] = True
                try:
                    turn = self.call("PUT", path, body, max(held.left() / 2, 0.05) if held else ttl / 2)
                    mine, owed = turn["candidacy"], False
                    if turn["state"] == "waiting":
                        why = "%s, which member %s leads" % (election, turn["held_by"]) if turn.get("held_by") else "leadership of " + election
                except socket.timeout:  # it may be frozen, or only this connection: what is valid stays so
                    why = "an answer of the agent %s: there is none in time" % self.address
                except OSError as e:
                    lost = str(e)
                    why = "an answer of the agent %s: %s" % (self.address, e)
                except Refused as e:
                    if e.code == 404:
                        mine, owed, lost = None, False, str(e)  # it has ended
                    elif e.code < 500 and e.code != 408:
                        raise
                    why = "the agent %s: %s" % (self.address, e)
                if turn and turn["state"] != "waiting":
                    valid = asked + turn["valid_ms"] / 1000 * (1 - MARGIN)
                    if held and turn["token"] == held.token:
                        held.extend(valid)
                    elif not held and turn["state"] == "leading":
                        if time.monotonic() < valid:  # else the answer has come too late to begin on it
                            held = Lead(election, turn["token"], valid, work, self, mine)
                    elif not held:
                        owed = True  # of a leadership that has ended before it was seen
                        continue
                    pause = min(pause, turn["valid_ms"] / 4000)
                if held and (lost or turn and (turn["state"] != "leading" or turn["token"] != held.token)):
                    held.lose(lost or turn.get("cause") or turn["state"])
                if not held:
                    if report and why and why != told:
                        report("waiting for " + why)
                    told = why
                    stop.wait(pause)
                elif held.done.wait(pause):
                    kept, held, owed = held, None, True
                    value = kept.result()
                    if kept.led:
                        return value
        finally:
            if held:
                held.lose("stopped")
                held.done.wait()
            if mine:
                try:
                    self.call("DELETE", path + "?candidacy=" + mine, timeout=ttl)
                except (OSError, Refused):
                    pass  # it has ended, or ends with its ttl
        return held.result() if held else None


class Lead:
    """A leadership, as the work sees it."""

    def __init__(self, election, token, valid, work, agent, candidacy):
        self.election, self.token, self.cause = election, token, None
        self._agent, self._candidacy = agent, candidacy
        self.epoch = int(token.split(":")[0])
        self.done = threading.Event()
        self._valid, self._changed = valid, threading.Condition()
        self._value, self._error = None, None
        threading.Thread(target=self._run, args=(work,), daemon=True).start()

    def _run(self, work):
        try:
            self._value = work(self)
        except BaseException as e:
            self._error = e
        finally:
            self.led = not self.over()  # a call may go on after this
            self.done.set()

    def result(self):
        if self._error:
            raise self._error
        return self._value

    def extend(self, valid):
        with self._changed:
            self._valid = max(self._valid, valid)

    def lose(self, cause):
        with self._changed:
            self.cause = self.cause or cause
            self._changed.notify_all()

    def left(self):
        """Seconds for which the work may go on without a further answer of the agent. After a loss: in which
        it must stop."""
        with self._changed:
            return self._valid - time.monotonic()

    def ready(self):
        """Reports that the work serves: the agent's events have it. Raises Refused if it leads no more, or OSError."""
        path = "/v1/elections/%s/ready" % urllib.parse.quote(self.election, safe="")
        self._agent.call("POST", path, {"candidacy": self._candidacy})

    def over(self):
        """Reports whether the work must stop now."""
        return self.wait(0)

    def wait(self, seconds):
        """Waits so long. It returns True as soon as the leadership is over, and stays True."""
        until = time.monotonic() + seconds
        with self._changed:
            while self.cause is None:
                now = time.monotonic()
                if now >= self._valid:
                    self.cause = "the agent does not answer"
                elif now >= until:
                    return False
                else:
                    self._changed.wait(min(until, self._valid) - now)
            return True


def command(argv, grace=5.0):
    """Gives work that runs a command, and its exit code. After a loss its process group receives SIGTERM, and
    SIGKILL after grace seconds, or when what is valid ends."""

    def work(lead):
        env = {**os.environ, "BATUTA_TOKEN": lead.token, "BATUTA_EPOCH": str(lead.epoch), "BATUTA_ELECTION": lead.election}
        p = subprocess.Popen(argv, start_new_session=True, env=env)
        try:
            while p.poll() is None and not lead.wait(0.02):
                pass
            if p.poll() is None:
                os.killpg(p.pid, signal.SIGTERM)
                until = time.monotonic() + min(grace, lead.left())
                while p.poll() is None and time.monotonic() < until:
                    time.sleep(0.01)
        finally:
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            p.wait()
        return p.returncode

    return work


def main():
    a = argparse.ArgumentParser(description="Run a command only while an election is held.")
    a.add_argument("--agent", default=os.environ.get("BATUTA_AGENT", "127.0.0.1:7500"), help="HOST:PORT or unix:PATH")
    a.add_argument("--ttl", type=float, default=10, help="seconds without a renewal until another may lead, 1 to 300")
    a.add_argument("--grace", type=float, default=5, help="seconds between SIGTERM and SIGKILL")
    a.add_argument("election")
    a.add_argument("command", nargs="+", help="-- COMMAND ARG...")
    a = a.parse_args()
    stop = threading.Event()
    for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(s) != signal.SIG_IGN:  # as with nohup
            signal.signal(s, lambda *_: threading.Thread(target=stop.set).start())
    try:
        code = Agent(a.agent).lead(a.election, command(a.command, a.grace), a.ttl, stop, lambda text: print("batuta.py:", text, file=sys.stderr))
    except (Refused, ValueError, OSError) as e:
        sys.exit("batuta.py: %s" % e)
    sys.exit(0 if code is None else code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
