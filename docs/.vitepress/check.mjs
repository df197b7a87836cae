// Each link within the built site leads to a page of it, and its fragment to an
// element there. VitePress looks at pages only, and not at images and fragments.
import { readdirSync, readFileSync, existsSync } from 'node:fs'
import { join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'

const site = fileURLToPath(new URL('../../out/site/', import.meta.url))
const pages = new Map()
for (const file of readdirSync(site, { recursive: true })) {
  if (file.endsWith('.html') && file !== '404.html') pages.set(posix.join('/', file), readFileSync(join(site, file), 'utf8'))
}

let links = 0
const dead = []
for (const [page, html] of pages) {
  for (const [, link] of html.matchAll(/(?:href|src)="([^"]*)"/g)) {
    const { origin, pathname, hash } = new URL(link.replaceAll('&amp;', '&'), 'site:' + page)
    if (origin !== 'null' || !/^([^:]*$|site:)/.test(link)) continue
    links++
    const target = pathname.endsWith('/') ? pathname + 'index.html' : pathname
    const id = decodeURIComponent(hash.slice(1))
    if (!existsSync(join(site, decodeURI(target)))) dead.push(`${page}: ${link}: there is no such file`)
    else if (id && pages.has(target) && !pages.get(target).includes(`id="${id}"`)) dead.push(`${page}: ${link}: the page has no such heading`)
  }
}
if (pages.size === 0 || dead.length > 0) {
  console.error(dead.join('\n'))
  console.error(`${dead.length} dead links on ${pages.size} pages`)
  process.exit(1)
}
console.log(`${pages.size} pages, ${links} links: all of them lead somewhere`)
