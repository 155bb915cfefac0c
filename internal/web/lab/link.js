// A scenario, a tour or an exercise in the page's address: behind the #, which no server sees.

const longest = 1 << 20 // bytes of a scenario that a link may hold: a short link can expand to very many

// through gives what a stream makes of bytes; it ends as soon as that is more than most.
async function through(stream, bytes, most = Infinity) {
  let size = 0
  const bound = new TransformStream({ transform(part, out) { out.enqueue(part); if ((size += part.length) > most) out.terminate() } })
  const out = new Response(new Blob([bytes]).stream().pipeThrough(stream).pipeThrough(bound))
  return new Uint8Array(await out.arrayBuffer())
}

// writeLink gives the address of what is shown; null: its scenario is longer than a link may hold.
export async function writeLink({ text, at, tour }) {
  const url = new URL(location.href)
  const bytes = new TextEncoder().encode(text)
  if (!tour && bytes.length > longest) return null
  const packed = await through(new CompressionStream('deflate-raw'), bytes)
  const code = btoa(Array.from(packed, byte => String.fromCharCode(byte)).join('')).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '')
  url.hash = tour ?? `s=${code}&t=${at}`
  return url.href
}

export async function readLink() {
  const hash = new URLSearchParams(location.hash.slice(1))
  const stop = Math.trunc(Number(hash.get('stop'))) || 1
  if (hash.get('superpeers')) return { superpeers: hash.get('superpeers'), stop }
  if (hash.get('tour')) return { tour: hash.get('tour'), stop }
  if (/^[\w.-]+\.json$/.test(hash.get('incident') ?? '')) return { incident: hash.get('incident') }
  if (hash.get('exercise')) return { exercise: hash.get('exercise'), seed: hash.get('seed') ? Number(hash.get('seed')) : NaN }
  if (!hash.get('s')) return null
  try {
    const bytes = Uint8Array.from(atob(hash.get('s').replace(/-/g, '+').replace(/_/g, '/')), c => c.charCodeAt(0))
    const text = await through(new DecompressionStream('deflate-raw'), bytes, longest)
    return text.length > longest ? { long: true } : { text: new TextDecoder().decode(text), at: Number(hash.get('t')) || 0 }
  } catch {
    return null
  }
}
