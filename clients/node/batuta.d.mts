/** The agent answers with an error: code is its HTTP status. */
export class Refused extends Error {
  readonly code: number
}

/** A leadership, as the work sees it. */
export interface Lead {
  readonly election: string
  /** epoch:leader; a fencing token only with quorum */
  readonly token: string
  readonly epoch: number
  /** why it is over; null until then */
  readonly cause: string | null
  /** aborts as soon as the leadership is over */
  readonly signal: AbortSignal
  /** milliseconds for which the work may go on without a further answer of the agent */
  left(): number
  /** whether the work must stop now */
  over(): boolean
  /** gives true as soon as the leadership is over, and false after ms milliseconds */
  wait(ms: number): Promise<boolean>
  /** reports that the work serves */
  ready(): Promise<void>
}

export interface LeadOptions {
  /** milliseconds, 1000 to 300000; default 10000 */
  ttl?: number
  /** ends the candidacy */
  signal?: AbortSignal
  /** Is called with what lead waits for, and again when that changes. */
  report?: (text: string) => void
  weight?: number
  seats?: number
  prefer?: boolean
}

export interface BatutaEvent {
  index: string
  time: string
  event: string
  id: string
  [field: string]: unknown
}

/** An agent: HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:PATH. */
export class Agent {
  constructor(address?: string, options?: { token?: string; tls?: import('node:tls').ConnectionOptions })
  /** Gives the answer to a call of the HTTP API; timeout is in milliseconds. */
  call(method: string, path: string, body?: unknown, timeout?: number): Promise<any>
  /** Yields events without end, and resumes. */
  events(query?: { since?: string; wait?: number; signal?: AbortSignal; election?: string; elections?: string }): AsyncGenerator<BatutaEvent>
  /** Runs work each time that this program leads; undefined once signal aborts. What work throws after a loss or an
   * abort is ignored. */
  lead<T>(election: string, work: (lead: Lead) => T | Promise<T>, options?: LeadOptions): Promise<T | undefined>
}

/** Gives work that runs a command, and its exit code. grace is in milliseconds. */
export function command(argv: string[], grace?: number): (lead: Lead) => Promise<number>
