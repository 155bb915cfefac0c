// The site has the pages in the order and the groups of docs/README.md.
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const pages = fileURLToPath(new URL('../pages/', import.meta.url))
const repository = 'https://github.com/batuta-dev/batuta'
const files = fs.readFileSync(pages + '../files.txt', 'utf8').trim().split('\n')

/** place is where a Markdown file is on the site: a README is the index of its directory. */
const place = file => file.replace(/^README\.es\.md$/, 'docs/es/index.md').replace(/(^|\/)README\.md$/, '$1index.md')

const url = file => '/' + place(file).replace(/(^|\/)index\.md$/, '$1').replace(/\.md$/, '.html')

const sources = new Map(files.filter(f => f.endsWith('.md')).map(file => [place(file), file]))

/** resolve gives the file that a link on a page leads to, and its fragment. */
const resolve = (page, href) => {
  const [target, fragment = ''] = decodeURI(href).split('#')
  return [target ? path.posix.join(path.posix.dirname(page), target) : page, fragment && '#' + fragment]
}

/** onSite gives the address of a relative link: a page of the site, or a file in the repository. */
const onSite = (page, href) => {
  if (/^([a-z]+:|#)/.test(href)) return href
  const [file, fragment] = resolve(page, href)
  if (file.endsWith('.md') && files.includes(file)) return url(file) + fragment
  const name = file.replace(/\/$/, '')
  if (files.includes(name)) return `${repository}/blob/main/${name}${fragment}`
  if (files.some(f => f.startsWith(name + '/'))) return `${repository}/tree/main/${name}`
  throw new Error(`${page}: link ${href} leads nowhere`)
}

/** title is the first heading of a page, as text. */
const title = file => fs.readFileSync(pages + file, 'utf8').match(/^# (.*)$/m)[1].replace(/[`*]/g, '')

const entry = file => {
  const items = file === index ? [] : within(file).map(entry)
  return { text: title(file), link: url(file), ...(items.length && { items, collapsed: true }) }
}

const index = 'docs/README.md'
const [english, translated] = fs.readFileSync(pages + index, 'utf8').split(/^In Spanish:/m)

/** linked lists the pages that a text of the index links to. */
const linked = (text, page = index) => [...text.matchAll(/\]\(([^)]+\.md)\)/g)].map(([, href]) => resolve(page, href)[0])

/** within lists the pages below the directory of a README, as it links to them. */
const within = file => {
  if (!file.endsWith('/README.md')) return []
  const below = linked(fs.readFileSync(pages + file, 'utf8'), file).filter(f => f.startsWith(path.posix.dirname(file) + '/') && f !== file)
  return [...new Set(below)]
}

/** groups has one for each table of the index, named by its head; each page is in the first that has it. */
const groups = () => {
  const seen = new Set()
  return english.split(/^(?=\| [^|]+ \| \|$)/m).slice(1).map(table => ({
    text: table.match(/^\| ([^|]+) \|/)[1],
    items: linked(table).filter(file => !seen.has(file) && seen.add(file)).map(entry),
  }))
}

const spanish = {
  nav: [{ text: 'Primeros pasos', link: '/docs/es/primeros-pasos' }, { text: 'Laboratorio', link: '/lab/', target: '_self' }, { text: 'GitHub', link: repository }],
  sidebar: ['README.es.md', ...linked(translated)].map(entry),
  outline: { label: 'En esta página', level: [2, 3] },
  docFooter: { prev: 'Anterior', next: 'Siguiente' },
  sidebarMenuLabel: 'Páginas', returnToTopLabel: 'Al principio', langMenuLabel: 'Idioma',
  darkModeSwitchLabel: 'Tema', lightModeSwitchTitle: 'Tema claro', darkModeSwitchTitle: 'Tema oscuro',
  skipToContentLabel: 'Ir al contenido',
}

const buttons = { buttonText: 'Buscar', buttonAriaLabel: 'Buscar' }
const modal = {
  displayDetails: 'Mostrar detalles', resetButtonTitle: 'Borrar', backButtonTitle: 'Cerrar', noResultsText: 'No hay resultados para',
  footer: { selectText: 'abrir', navigateText: 'moverse', closeText: 'cerrar' },
}

export default {
  title: 'batuta',
  description: 'Leader election for services, commands and cron jobs',
  srcDir: 'pages',
  cacheDir: '.vitepress/cache',
  cleanUrls: false,
  base: process.env.BATUTA_SITE_BASE ?? '/',
  metaChunk: true,
  rewrites: place,
  locales: {
    root: { label: 'English', lang: 'en' },
    'docs/es': { label: 'Español', lang: 'es', themeConfig: spanish },
  },
  head: [['link', { rel: 'icon', href: (process.env.BATUTA_SITE_BASE ?? '/') + 'lab/shared/icon.svg' }]],
  markdown: {
    theme: { light: 'github-light-high-contrast', dark: 'github-dark-high-contrast' },
    anchor: { slugify: s => s.trim().toLowerCase().replace(/ /g, '-').replace(/[^\p{L}\p{N}_-]/gu, '') }, // as GitHub
    config(md) {
      const open = md.renderer.rules.link_open ?? ((tokens, i, options, env, self) => self.renderToken(tokens, i, options))
      md.renderer.rules.link_open = (tokens, i, options, env, self) => {
        const token = tokens[i]
        token.attrSet('href', onSite(sources.get(env.relativePath) ?? env.relativePath, token.attrGet('href')))
        return open(tokens, i, options, env, self)
      }
    },
  },
  themeConfig: {
    i18nRouting: false,
    nav: [{ text: 'First steps', link: '/docs/tutorial-command' }, { text: 'HTTP API', link: '/docs/reference-api' }, { text: 'Lab', link: '/lab/', target: '_self' }, { text: 'GitHub', link: repository }],
    sidebar: [entry('README.md'), entry(index), ...groups()],
    outline: { level: [2, 3] },
    search: { provider: 'local', options: { locales: { 'docs/es': { translations: { button: buttons, modal } } } } },
  },
}
