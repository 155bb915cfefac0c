// The colours of leaderships, the same in every picture: safe for the colour-blind on
// light and dark ground, and never the only sign.
const palette = ['#4a90d9', '#e69f00', '#2fae83', '#c56bb5', '#d55e00', '#8f9a2e', '#7a6ff0', '#b08968']

// Leaderships gives each token (epoch and leader) a colour, in the order in which they come.
export class Leaderships {
  #known = new Map()
  colour(epoch, leader) {
    const key = epoch + ':' + leader
    if (!this.#known.has(key)) this.#known.set(key, palette[this.#known.size % palette.length])
    return this.#known.get(key)
  }
}
