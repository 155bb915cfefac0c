// The simulator, off the page's own thread: each request is a function of batuta's and
// what it is given, each answer what it gave.

import './wasm_exec.js'

// One simulator has quorum too, and is half as large again: it serves all, if it was the first.
// Super peers have one of their own.
const plain = 'lab.wasm.gz', whole = 'lab-quorum.wasm.gz'
const loaded = {}

function simulator(name) {
  return loaded[name] ??= load(name).catch(error => {
    delete loaded[name] // the next request retries
    postMessage({ progress: 1 })
    throw error
  })
}

async function load(name) {
  const go = new globalThis.Go()
  const packed = await fetch(name)
  if (!packed.ok) throw new Error(`${name}: ${packed.status}`)
  const size = Number(packed.headers.get('Content-Length'))
  let got = 0
  const counted = new TransformStream({ transform(chunk, out) { got += chunk.length; if (size) postMessage({ progress: Math.min(1, got / size) }); out.enqueue(chunk) } })
  const code = new Response(packed.body.pipeThrough(counted).pipeThrough(new DecompressionStream('gzip')), { headers: { 'Content-Type': 'application/wasm' } })
  const { instance } = await WebAssembly.instantiateStreaming(code, go.importObject)
  go.run(instance)
  return globalThis.batuta
}

const needsQuorum = args => args.some(arg => /algorithm["\s:]+quorum\b/.test(String(arg)))

// One after the other: two that load at once would take each other's name.
let last = Promise.resolve()

onmessage = ({ data }) => { last = last.then(() => answer(data)) }

async function answer({ id, call, args }) {
  try {
    const batuta = await simulator(call.startsWith('superpeers') ? 'lab-superpeers.wasm.gz' : needsQuorum(args) || loaded[whole] && !loaded[plain] ? whole : plain)
    postMessage({ id, value: JSON.parse(batuta[call](...args.map(arg => typeof arg === 'string' ? arg.normalize('NFC') : arg))) })
  } catch (error) {
    postMessage({ id, error: String(error && error.message || error) })
  }
}
