// The simulator, off the page's own thread: each request is a function of batuta's and
// what it is given, each answer what it gave.

import './wasm_exec.js'

const ready = (async () => {
  const go = new globalThis.Go()
  const packed = await fetch('lab.wasm.gz')
  if (!packed.ok) throw new Error(`lab.wasm.gz: ${packed.status}`)
  const code = new Response(packed.body.pipeThrough(new DecompressionStream('gzip')), { headers: { 'Content-Type': 'application/wasm' } })
  const { instance } = await WebAssembly.instantiateStreaming(code, go.importObject)
  go.run(instance)
  return globalThis.batuta
})()

onmessage = async ({ data: { id, call, args } }) => {
  try {
    const batuta = await ready
    postMessage({ id, value: JSON.parse(batuta[call](...args)) })
  } catch (error) {
    postMessage({ id, error: String(error && error.message || error) })
  }
}
