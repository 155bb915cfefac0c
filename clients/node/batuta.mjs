// Leadership from the batuta agent on this machine. One file; it needs only Node.js, 18 or later.
//
//   import { Agent } from './batuta.mjs'
//
//   await new Agent('127.0.0.1:7500').lead('payroll', async (lead) => {
//     while (!(await lead.wait(1000))) { // false after 1 s; true at once when the leadership is over
//       await write({ fence: lead.token })
//     }
//   })
//
// After a loss the work must return. Only then is the loss acknowledged, and only then another member leads. If the
// agent dies or freezes, lead.wait() and lead.signal end before others may begin (with --algorithm quorum; with best
// effort they may begin earlier). Code that blocks the event loop delays this: check lead.left() after it.
//
// From a shell:  node batuta.mjs --agent 127.0.0.1:7500 payroll -- ./worker

import { spawn } from 'node:child_process'
import { existsSync, realpathSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import { constants } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'

const MARGIN = 0.2 // part of the valid time that is left for the work to notice the end
const PAUSE = 200 // milliseconds between two questions, at most
const now = () => performance.now() // nothing sets this clock

/** The agent answers with an error: code is its HTTP status. */
export class Refused extends Error {
  constructor(code, text) {
    super(text)
    this.name = 'Refused'
    this.code = code
  }
}

/** The agent has not answered in time. It may be frozen. */
class Late extends Error {}

// pauseFor ends after ms, or when one of the signals aborts.
async function pauseFor(ms, ...signals) {
  const stop = new AbortController()
  const end = () => stop.abort()
  for (const s of signals) s?.addEventListener('abort', end)
  if (signals.some((s) => s?.aborted)) end()
  await sleep(ms, null, { signal: stop.signal }).catch(() => {})
  for (const s of signals) s?.removeEventListener('abort', end)
}

/** An agent: HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:PATH. token is for --http-token-file; tls has the
 * options of node:tls for https, such as ca. */
export class Agent {
  constructor(address = '127.0.0.1:7500', { token, tls } = {}) {
    this.token = token
    this.options = { agent: false } // a connection each: an idle one may end while it is used
    if (address.startsWith('unix:')) {
      this.base = 'http://localhost'
      this.options.socketPath = address.slice('unix:'.length)
    } else {
      this.base = (address.includes('://') ? address : 'http://' + address).replace(/\/+$/, '')
      Object.assign(this.options, tls)
    }
  }

  /** Gives the answer to a call of the HTTP API. Throws Refused, or another Error if there is no answer within
   * timeout milliseconds. */
  async call(method, path, body, timeout = 10_000) {
    const { status, text } = await this.#ask(method, path, body, timeout)
    let answer
    try {
      answer = JSON.parse(text)
    } catch {
      answer = { error: 'the answer is not batuta\'s: ' + text.slice(0, 100) }
      if (status < 300) throw new Error(answer.error) // such as an answer that is cut short
    }
    if (status >= 300) throw new Refused(status, answer?.error ?? http.STATUS_CODES[status])
    return answer
  }

  #ask(method, path, body, timeout) {
    return new Promise((resolve, reject) => {
      const headers = { 'Content-Type': 'application/json' }
      if (this.token) headers.Authorization = 'Bearer ' + this.token
      const module = this.base.startsWith('https:') ? https : http
      const request = module.request(this.base + path, { ...this.options, method, headers }, (answer) => {
        let text = ''
        answer.setEncoding('utf8')
        answer.on('data', (part) => (text += part))
        answer.on('end', () => resolve({ status: answer.statusCode, text }))
        answer.on('error', reject)
        answer.on('close', () => reject(new Error('it ended within its answer')))
      })
      const late = setTimeout(() => request.destroy(new Late(`no answer within ${Math.round(timeout)} ms`)), timeout)
      request.on('error', reject)
      request.on('close', () => clearTimeout(late))
      request.end(body === undefined ? undefined : JSON.stringify(body))
    })
  }

  /** Yields events without end, first the current view, or what follows an index. It goes on by itself when the agent
   * is back: an event "reset" or "behind" reports what is missing. wait is in milliseconds; query has what else
   * GET /v1/events takes, such as election. */
  async *events({ since, wait = 30_000, signal, ...query } = {}) {
    while (!signal?.aborted) {
      const ask = new URLSearchParams({ wait: wait + 'ms', ...query, ...(since ? { since } : {}) })
      let answer
      try {
        answer = await this.call('GET', '/v1/events?' + ask, undefined, wait + 10_000)
      } catch (e) {
        if (e instanceof Refused && e.code < 500) throw e
        await pauseFor(1000, signal)
        continue
      }
      for (const event of answer) {
        since = event.index
        yield event
      }
    }
  }

  /** Stands for an election until signal aborts, and runs work(lead) each time that it leads. After a loss it waits
   * for the work, acknowledges, and stands again. If the work returns or throws while it leads, the election is given
   * away, and lead does the same. What it throws after a loss or an abort is ignored: it is mostly that of lead.signal.
   * ttl is in milliseconds: for so long a leadership is kept for a program that answers no more. options are weight,
   * seats and prefer. report(text) is called with what it waits for, and again when that changes. */
  async lead(election, work, { ttl = 10_000, signal, report, ...options } = {}) {
    if (!(ttl >= 1000 && ttl <= 300_000)) throw new RangeError(`ttl is ${ttl / 1000} s: give 1 to 300 s`)
    let told
    const path = `/v1/elections/${encodeURIComponent(election)}/candidacy`
    const c = { mine: null, owed: false, held: null } // the id; whether an acknowledgement is owed; what leads
    try {
      while (!signal?.aborted) {
        const asked = now()
        const body = { ttl: Math.round(ttl) + 'ms', ...(c.mine ? { candidacy: c.mine } : options) }
        if (c.owed && c.mine) body.released = true
        const { turn, lost, why } = await this.#turn(c, path, body, c.held ? Math.max(c.held.left() / 2, 50) : ttl / 2, election)
        let pause = PAUSE
        if (turn && turn.state !== 'waiting') {
          const valid = asked + turn.valid_ms * (1 - MARGIN)
          pause = Math.min(pause, turn.valid_ms / 4)
          if (c.held && turn.token === c.held.token) {
            c.held.extend(valid)
          } else if (!c.held && turn.state === 'leading') {
            // else the answer has come too late to begin on it
            if (now() < valid) c.held = new Lead(election, turn.token, valid, work, this, c.mine)
          } else if (!c.held) {
            c.owed = true // of a leadership that has ended before it was seen
            continue
          }
        }
        const { held } = c
        if (held && (lost || (turn && (turn.state !== 'leading' || turn.token !== held.token)))) {
          held.lose(lost || turn.cause || turn.state)
        }
        if (!held && why && why !== told) report?.('waiting for ' + why)
        told = held ? undefined : why
        await pauseFor(pause, signal, held?.returned)
        if (held?.returned.aborted) {
          c.held = null
          c.owed = true
          if (held.led) return held.result()
        }
      }
    } finally {
      if (c.held) {
        c.held.lose('stopped')
        await c.held.done
      }
      if (c.mine) await this.call('DELETE', `${path}?candidacy=${c.mine}`, undefined, ttl).catch(() => {}) // or it ends with its ttl
    }
    return c.held?.result()
  }

  // turn asks for a turn. lost: why a leadership is over. why: what is waited for.
  async #turn(c, path, body, timeout, election) {
    try {
      const turn = await this.call('PUT', path, body, timeout)
      c.mine = turn.candidacy
      c.owed = false
      const by = turn.held_by ? `${election}, which member ${turn.held_by} leads` : 'leadership of ' + election
      return { turn, why: turn.state === 'waiting' ? by : undefined }
    } catch (e) {
      const why = `an answer of the agent ${this.options.socketPath ?? this.base}: ${e.message || e.code}`
      if (e instanceof Refused && e.code === 404) {
        c.mine = null // it has ended
        c.owed = false
      } else if (e instanceof Refused && e.code < 500 && e.code !== 408) {
        throw e
      } else if (e instanceof Refused || e instanceof Late) {
        return { why } // what is valid stays so
      }
      return { lost: e.message || e.code, why }
    }
  }
}

/** A leadership, as the work sees it. */
class Lead {
  #valid
  #abort = new AbortController()
  #timer
  #agent
  #candidacy

  constructor(election, token, valid, work, agent, candidacy) {
    const returned = new AbortController()
    Object.assign(this, { election, token, epoch: Number(token.split(':')[0]), cause: null, returned: returned.signal })
    this.#agent = agent
    this.#candidacy = candidacy
    this.extend(valid)
    this.done = (async () => {
      try {
        this.value = await work(this)
      } catch (e) {
        if (!this.over()) this.failure = { e }
      }
      this.led = !this.over() // a call may go on after this
      clearTimeout(this.#timer)
      returned.abort()
    })()
  }

  /** An AbortSignal: it aborts as soon as the leadership is over. */
  get signal() {
    return this.#abort.signal
  }

  result() {
    if (this.failure) throw this.failure.e
    return this.value
  }

  extend(valid) {
    if (this.returned.aborted) return
    this.#valid = Math.max(this.#valid ?? 0, valid)
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.over() || this.extend(0), Math.max(this.left(), 0) + 1)
  }

  lose(cause) {
    this.cause ??= cause
    clearTimeout(this.#timer)
    this.#abort.abort(new Error(this.cause))
  }

  /** Milliseconds for which the work may go on without a further answer of the agent. After a loss: in which it must
   * stop. */
  left() {
    return this.#valid - now()
  }

  /** Reports that the work serves: the agent's events have it. Throws Refused if it leads no more. */
  async ready() {
    await this.#agent.call('POST', `/v1/elections/${encodeURIComponent(this.election)}/ready`, { candidacy: this.#candidacy })
  }

  /** Reports whether the work must stop now. */
  over() {
    if (this.cause === null && this.left() <= 0) this.lose('the agent does not answer')
    return this.cause !== null
  }

  /** Waits for ms milliseconds. It gives true as soon as the leadership is over, and stays true. */
  async wait(ms) {
    if (!this.over()) await pauseFor(ms, this.signal)
    return this.over()
  }
}

/** Gives work that runs a command, and its exit code, or 128 and the signal. After a loss its process group receives
 * SIGTERM, and SIGKILL after grace milliseconds, or when what is valid ends. */
export function command(argv, grace = 5000) {
  return async (lead) => {
    const env = { ...process.env, BATUTA_TOKEN: lead.token, BATUTA_EPOCH: String(lead.epoch), BATUTA_ELECTION: lead.election }
    const child = spawn(argv[0], argv.slice(1), { detached: true, stdio: 'inherit', env })
    const exit = new AbortController()
    let code, failure
    child.on('exit', (status, signal) => {
      code = status ?? 128 + constants.signals[signal]
      exit.abort()
    })
    child.on('error', (e) => {
      failure = e
      exit.abort()
    })
    const kill = (signal) => {
      try {
        process.kill(-child.pid, signal)
      } catch {
        // the group is gone
      }
    }
    while (!exit.signal.aborted && !lead.over()) await pauseFor(3_600_000, lead.signal, exit.signal)
    if (!exit.signal.aborted) {
      kill('SIGTERM')
      await pauseFor(Math.max(Math.min(grace, lead.left()), 0), exit.signal)
    }
    if (!failure) kill('SIGKILL')
    while (!exit.signal.aborted) await pauseFor(3_600_000, exit.signal)
    if (failure) throw failure
    return code
  }
}

async function main() {
  const usage = 'usage: node batuta.mjs [--agent HOST:PORT|unix:PATH] [--ttl SECONDS] [--grace SECONDS] ELECTION -- COMMAND ARG...'
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { agent: { type: 'string' }, ttl: { type: 'string', default: '10' }, grace: { type: 'string', default: '5' } },
  })
  const [election, ...argv] = positionals
  if (argv.length === 0) throw new Error(usage)
  const stop = new AbortController()
  for (const s of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(s, () => stop.abort())
  const agent = new Agent(values.agent ?? process.env.BATUTA_AGENT)
  const code = await agent.lead(election, command(argv, values.grace * 1000), {
    ttl: values.ttl * 1000,
    signal: stop.signal,
    report: (text) => console.error('batuta.mjs: ' + text),
  })
  process.exitCode = code ?? 0
}

if (existsSync(process.argv[1] ?? '') && import.meta.url === pathToFileURL(realpathSync(process.argv[1])).href) {
  main().catch((e) => {
    console.error('batuta.mjs: ' + e.message)
    process.exitCode = 1
  })
}
