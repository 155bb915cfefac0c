// The page's side of the worker.

export class Simulator {
  #worker
  #open = new Map()
  #next = 1

  #start() {
    this.#worker = new Worker(new URL('worker.js', import.meta.url), { type: 'module' })
    this.#worker.onmessage = ({ data: { id, value, error, progress } }) => {
      if (progress !== undefined) { this.loading?.(progress); return }
      const waiting = this.#open.get(id)
      if (!waiting) return
      this.#open.delete(id)
      if (error) waiting.reject(new Error(error))
      else waiting.resolve(value)
    }
    this.#worker.onerror = event => {
      event.preventDefault?.()
      this.#end(event.message || 'the simulator has ended')
    }
  }

  // end ends the worker and what it has been asked: the next request starts another.
  #end(why) {
    this.#worker?.terminate()
    this.#worker = undefined
    for (const waiting of this.#open.values()) waiting.reject(new Error(why))
    this.#open.clear()
  }

  loading = null // is called with the share of the simulator that is there

  // ask calls one of the simulator's functions.
  ask(call, ...args) {
    if (!this.#worker) this.#start()
    const id = this.#next++
    return new Promise((resolve, reject) => {
      this.#open.set(id, { resolve, reject })
      this.#worker.postMessage({ id, call, args })
    })
  }

  // stop ends what runs.
  stop() { this.#end('stopped') }
}
