// Which connections are open, as members report their own.

// linksOf gives the pairs of members with a connection. One is not sure where the other end
// is known of, too, and has none.
export function linksOf(status, gathered) {
  const told = new Map([[status.id, status.members.filter(m => m.linked).map(m => m.id)]])
  for (const { id, history } of gathered?.members ?? []) {
    if (id !== status.id && history?.links) told.set(id, history.links)
  }
  const own = new Set(told.get(status.id)), places = new Map(status.members.map((m, i) => [m.id, i])), pairs = new Map()
  for (const [id, others] of told) {
    for (const other of others) {
      if (id === other || !places.has(id) || !places.has(other)) continue
      if (other === status.id && !own.has(id)) continue // the member asked knows it better: what is gathered is older
      if (status.quorum && [id, other].some(end => status.members[places.get(end)].state !== 'up')) continue // open still, but nothing arrives: an idle follower does not notice
      const ends = places.get(id) < places.get(other) ? [id, other] : [other, id], key = ends.map(end => places.get(end)).join()
      if (!pairs.has(key)) pairs.set(key, { ends, says: new Set() })
      pairs.get(key).says.add(id)
    }
  }
  return [...pairs.values()].map(({ ends, says }) => ({ ends, sure: says.has(status.id) || ends.every(id => says.has(id) || !told.has(id)) }))
}
