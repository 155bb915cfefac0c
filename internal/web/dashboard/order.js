// The order of ids: that of batuta status.

const utf8 = new TextEncoder()

// byID orders ids of one kind as election.ID.Compare does: integers and addresses by value, others by bytes.
export function byID(a, b) {
  if (/^\d+$/.test(a) && /^\d+$/.test(b)) return a.length - b.length || byBytes(a, b)
  const x = address(a), y = address(b)
  return x && y ? x.hex.length - y.hex.length || byBytes(x.hex, y.hex) || byBytes(x.zone, y.zone) : byBytes(a, b)
}

function byBytes(a, b) {
  const x = utf8.encode(a), y = utf8.encode(b)
  const at = x.findIndex((byte, i) => byte !== y[i])
  return at < 0 ? x.length - y.length : x[at] - (y[at] ?? -1)
}

// address gives the value of an IP address, and the zone; null: the id is none.
function address(id) {
  const [ip, zone = ''] = id.split(/%(.*)/s)
  const bytes = ip.split('.')
  if (ip === id && bytes.length === 4 && bytes.every(n => String(Number(n)) === n && n < 256)) return { hex: bytes.map(n => Number(n).toString(16).padStart(2, '0')).join(''), zone }
  if (!ip.includes(':') || !URL.canParse(`http://[${ip}]`)) return null
  const [head, tail] = new URL(`http://[${ip}]`).hostname.slice(1, -1).split('::').map(part => part ? part.split(':') : [])
  const groups = tail ? [...head, ...Array(8 - head.length - tail.length).fill('0'), ...tail] : head
  return { hex: groups.map(g => g.padStart(4, '0')).join(''), zone }
}
