// The site is the pages of this directory as they are, by VitePress: their
// links lead to files of the repository, as on GitHub. A link to a page that
// does not exist fails the build.
import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, posix, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig, type DefaultTheme } from 'vitepress'

const here = dirname(fileURLToPath(import.meta.url))
const docs = resolve(here, '..')
const repository = 'https://github.com/golda-dev/golda'

/** source returns the address of a file of the repository that is no page. */
function source(path: string): string {
  const file = resolve(docs, path)
  const kind = statSync(file).isDirectory() ? 'tree' : 'blob'
  return `${repository}/${kind}/main/${relative(resolve(docs, '..'), file)}`
}

/** address returns where a relative link of a page leads on the site. */
function address(page: string, link: string): string {
  const [path, ...anchor] = link.split('#')
  const hash = anchor.length > 0 ? '#' + anchor.join('#') : ''
  if (path === '' || /^([a-z]+:|\/)/.test(path)) return link
  const target = posix.join(posix.dirname(page), decodeURI(path))
  if (target.endsWith('.md') && !target.startsWith('../')) {
    return '/' + target.replace(/README\.md$/, 'index.md') + hash
  }
  if (!target.startsWith('../') && existsSync(join(docs, target, 'README.md'))) return '/' + join(target, 'index.md') + hash
  return existsSync(join(docs, target)) ? source(target) + hash : link
}

/** slug returns the anchor of a heading as GitHub makes it: links have that. */
function slug(heading: string): string {
  return heading.trim().toLowerCase().replace(/[^\p{L}\p{M}\p{N}\s_-]/gu, '').replace(/\s/g, '-')
}

/** sidebar returns the groups of the index, which has each page. */
function sidebar(): DefaultTheme.SidebarItem[] {
  const groups: DefaultTheme.SidebarItem[] = []
  for (const line of readFileSync(join(docs, 'README.md'), 'utf8').split('\n')) {
    const heading = line.match(/^## (.+)/)
    if (heading) groups.push({ text: heading[1], items: [] })
    const row = line.match(/^\| \[(.+?)\]\((.+?\.md)\)/)
    if (row) groups.at(-1)!.items!.push({ text: row[1], link: address('README.md', row[2]) })
  }
  return groups
}

export default defineConfig({
  title: 'Golda',
  description: 'Staged event-driven pipelines in Go that survive their crashes',
  outDir: '../out/site',
  cacheDir: '.vitepress/node_modules/.cache',
  head: [['style', {}, '.VPDoc.has-aside .content-container.content-container { max-width: 860px } :root { --vp-layout-max-width: 1600px }']], // tables and code are wide
  srcExclude: ['.vitepress/**'],
  rewrites: (page) => page.replace(/README\.md$/, 'index.md'),
  vite: {
    build: { chunkSizeWarningLimit: 1500 },
    resolve: { alias: { vue: join(here, 'node_modules/vue') } }, // pages have no node_modules above them
  },
  markdown: {
    anchor: { slugify: slug },
    languageAlias: { conf: 'ini' },
    config(md) {
      md.core.ruler.push('links', (state) => {
        const page = relative(docs, state.env.realPath ?? state.env.path)
        for (const block of state.tokens) {
          for (const token of block.children ?? []) {
            const href = token.type === 'link_open' ? token.attrGet('href') : null
            if (href) token.attrSet('href', address(page, href))
          }
        }
      })
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    sidebar: sidebar(),
    socialLinks: [{ icon: 'github', link: repository }],
    outline: [2, 3],
  },
})
