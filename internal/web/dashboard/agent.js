// The agent's HTTP API, as the page asks it.

let token = '' // kept here alone: it is gone with the page

export function setToken(value) { token = value.trim() }

const headers = () => ({ Accept: 'application/json', ...token && { Authorization: `Bearer ${token}` } })

// Refused is an answer that says why not.
export class Refused extends Error {
  constructor(code, message) { super(message); this.code = code }
}

async function ask(method, path, { body, tag, patience = 3000 } = {}) {
  const answer = await fetch(path, {
    method, headers: { ...headers(), ...body !== undefined && { 'Content-Type': 'application/json' }, ...tag && { 'If-None-Match': tag } },
    body: body === undefined ? undefined : JSON.stringify(body), cache: 'no-store', signal: AbortSignal.timeout(method === 'GET' && tag === undefined ? patience : 12_000),
  })
  if (answer.status === 304) return { tag }
  const text = await answer.text()
  let value
  try { value = JSON.parse(text) } catch { throw new Refused(answer.status, text || answer.statusText) }
  if (!answer.ok) throw new Refused(answer.status, value.error || answer.statusText)
  return { value, tag: answer.headers.get('ETag') }
}

export const get = async (path, patience) => (await ask('GET', path, { patience })).value
export const post = async (path, body) => (await ask('POST', path, { body })).value
export const put = async (path, body) => (await ask('PUT', path, { body })).value
export const remove = async path => (await ask('DELETE', path)).value

// news asks for what may be long: its value is undefined if it is as it was under that tag.
export const news = (path, tag = '') => ask('GET', path, { tag })

const silence = 40_000 // the agent says something every 15 s

const shown = () => new Promise(done => document.addEventListener('visibilitychange', done, { once: true }))

// listen follows /v1/events while the page is visible: each event to on.event, and what becomes of the
// connection to on.open and on.lost. It asks again after half a second; if the agent refuses a
// stream, the page goes on by what it asks for itself. A hidden page has no stream: a browser opens
// six connections to an agent, and further pages would wait for one of them.
export async function listen(on) {
  for (;;) {
    let pause = 500
    while (document.hidden) await shown()
    try { await follow(on) } catch (error) {
      if (document.hidden) continue
      const code = error instanceof Refused ? error.code : 0
      if (code === 401) pause = Infinity // until there is a token
      if (code === 0 || code === 401) on.lost(error)
      else pause = 5000
    }
    await new Promise(done => { again = done; if (pause < Infinity) setTimeout(done, pause) })
  }
}

let again = () => {}

// restart has events asked for anew, with another token.
export function restart() { again() }

async function follow(on) {
  const end = new AbortController()
  let watch = setTimeout(() => end.abort(new Error('silent')), 5000)
  const hide = () => { if (document.hidden) end.abort(new Error('hidden')) }
  document.addEventListener('visibilitychange', hide)
  const alive = () => { clearTimeout(watch); watch = setTimeout(() => end.abort(new Error('silent')), silence) }
  try {
    const answer = await fetch('v1/events', { headers: { ...headers(), Accept: 'text/event-stream' }, cache: 'no-store', signal: end.signal })
    if (!answer.ok) {
      const text = await answer.text()
      let why = text
      try { why = JSON.parse(text).error } catch { /* it is no JSON */ }
      throw new Refused(answer.status, why)
    }
    alive()
    on.open()
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
    let rest = ''
    for (;;) {
      const { value, done } = await reader.read()
      if (done) throw new Error('the agent has left')
      alive()
      const parts = (rest + value).split('\n\n')
      rest = parts.pop()
      for (const part of parts) {
        const data = part.split('\n').filter(line => line.startsWith('data: ')).map(line => line.slice(6)).join('\n')
        if (data) on.event(JSON.parse(data))
      }
    }
  } finally {
    clearTimeout(watch)
    document.removeEventListener('visibilitychange', hide)
    end.abort()
  }
}
