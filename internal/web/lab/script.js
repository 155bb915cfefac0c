// The text of a tour: its title, the scenario between the lines "scenario" and "end", and stops.
//
//	en: The leader dies
//	es: Muere el líder
//	scenario
//	members 1 2 3
//	run 1s
//	crash 3
//	agree
//	end
//	stop * 3 crashes
//	en: Member 3 is dead, and no member has detected it.
//	es: El miembro 3 ha caído y ningún miembro lo ha detectado.
//	ask leader
//	ask epoch on 2
//	stop end
//
// A stop is at the start, at the end, or at the first line of the trace after the previous stop that begins
// so. "+5ms" delays it, except at the end. "? leads" matches any member. A line that begins with a blank
// continues the line before.

const questions = ['leader', 'epoch', 'leaders', 'messages']

// parse reads a tour. It throws what is wrong, with the line.
export function parse(name, text) {
  const tour = { name, title: {}, scenario: '', stops: [] }
  let to = tour.title, last = null, inside = false
  text.split('\n').forEach((line, n) => {
    const [, key, rest] = /^(\S*) ?(.*)$/.exec(line), stop = tour.stops.at(-1)
    if (inside && line === 'end') inside = false
    else if (inside) tour.scenario += line + '\n'
    else if (line === '' || key === '#') return
    else if (line === 'scenario') inside = true
    else if (key === 'stop') { tour.stops.push(stopOf(rest)); to = tour.stops.at(-1).text } else if (key === 'ask' && stop) {
      const [what, on] = rest.split(' on ')
      if (!questions.includes(what)) throw new Error(`${name}, line ${n + 1}: "${rest}" is none of the questions ${questions.join(', ')}`)
      ;(stop.ask ??= []).push({ what, on })
    } else if (key === 'en:' || key === 'es:') { last = [to, key.slice(0, 2)]; to[last[1]] = rest } else if (key === '' && last) last[0][last[1]] += ' ' + rest.trim()
    else throw new Error(`${name}, line ${n + 1}: expected scenario, stop, ask, en: or es:, found "${line}"`)
  })
  const told = [tour.title, ...tour.stops.map(stop => stop.text)].every(x => x.en && x.es)
  if (!told || !tour.stops.length || tour.stops.at(-1).ask) throw new Error(`${name}: a tour has a title and stops, each in English and Spanish, and the last stop asks nothing`)
  return tour
}

function stopOf(when) {
  const [, line, later] = /^(.*?)(?: \+(\d+)ms)?$/.exec(when)
  return { when: line, later: Number(later ?? 0), text: {} }
}

// place finds the moment of each stop in the run of the tour's scenario. It throws the stop that has none.
export function place(tour, played) {
  const id = i => played.members[i].id
  const event = e => `${e.fault ? '* ' : ''}${e.m < 0 ? e.who : id(e.m)} ${e.what}${e.peer && e.peer !== (e.m < 0 ? e.who : id(e.m)) ? ' ' + e.peer : ''}${e.epoch ? ' epoch=' + e.epoch : ''}`
  const lines = [...played.events.map(e => ({ at: e.at, said: event(e) })), ...played.flights.map(f => ({ at: f.sent, said: `${id(f.from)} sends ${f.kind} to ${id(f.to)}` }))].sort((a, b) => a.at - b.at)
  let last = { at: 0 }
  for (const stop of tour.stops) {
    if (stop.when === 'start') stop.at = stop.later
    else if (stop.when === 'end') stop.at = played.elapsed
    else {
      const begins = x => stop.when.startsWith('? ') ? x.said.slice(x.said.indexOf(' ') + 1).startsWith(stop.when.slice(2)) : x.said.startsWith(stop.when)
      const found = lines.find(x => x.at >= last.at && !x.taken && begins(x))
      if (!found) throw new Error(`${tour.name}: the trace has no line "${stop.when}" behind the last stop`)
      found.taken = true
      last = found
      stop.at = found.at + stop.later
    }
  }
  return tour
}
