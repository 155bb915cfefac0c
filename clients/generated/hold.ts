// hold.ts URL: holds the election payroll through a client that openapi-typescript has generated, and prints how it
// stands. clients/node is the client for programs; this one only tries the description of the API.

import createClient from 'openapi-fetch'
import type { components, paths } from './api.js'

type Candidacy = components['schemas']['Candidacy']

const client = createClient<paths>({ baseUrl: process.argv[2]! })
const path = { params: { path: { name: 'payroll' } } } as const

let mine: string | undefined
let held: string | null = null
let valid = 0 // until when the work may go on, by performance.now()
let owed = false

function lose(why: string) {
  if (held) console.log('lost', why)
  held = null
}

const soon = () => AbortSignal.timeout(300)

async function ready(candidacy: string): Promise<void> {
  try {
    const { error } = await client.POST('/v1/elections/{name}/ready', { ...path, body: { candidacy }, signal: soon() })
    if (error) console.log('ready:', error.error)
  } catch {
    // the next turn sees that the agent does not answer
  }
}

async function turn(): Promise<void> {
  const asked = performance.now()
  let now: Candidacy
  try {
    const body = { ttl: '10s', candidacy: mine, released: owed || undefined }
    const { data, error, response } = await client.PUT('/v1/elections/{name}/candidacy', { ...path, body, signal: soon() })
    if (error) {
      if (response.status === 404) [mine, owed] = [undefined, false]
      return lose(error.error)
    }
    now = data as Candidacy // and not a stream, since it has a ttl
  } catch (e) {
    if (performance.now() > valid || (e as Error).name !== 'TimeoutError') lose('no answer')
    return
  }
  owed = false
  mine = now.candidacy
  valid = asked + now.valid_ms
  if (now.state === 'leading' && now.token !== held) {
    lose('another token')
    held = now.token
    console.log('leading', held)
    await ready(mine)
  } else if (now.state === 'lost') {
    lose(now.cause ?? 'lost')
    owed = true // the work has stopped
  }
}

process.stdin.on('end', () => process.exit()).resume()
for (;;) {
  await turn()
  await new Promise((resolve) => setTimeout(resolve, 100))
}
