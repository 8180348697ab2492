/** What a suite said, and the page made of it. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../../support/world.ts'

export interface Result {
  readonly name: string
  readonly ok: boolean
  readonly detail?: string | undefined
  readonly ms: number
}

/** Lines of JSON among whatever else an SDK prints. */
export function parseResults(output: string): Result[] {
  return output
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Result)
}

export const PAGE = join(ROOT, 'docs', 'compat', 'e2b.md')
const BEGIN = '<!-- results: written by test/compat/e2b, with AGENTPOD_UPDATE_DOCS=1 -->'
const END = '<!-- end of results -->'

/** The page with its table of results made anew; the words around it are written by hand. */
export function pageWith(results: ReadonlyMap<string, readonly Result[]>): string {
  const page = existsSync(PAGE) ? readFileSync(PAGE, 'utf8') : `${BEGIN}\n${END}\n`
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)]
  if (begin < 0 || end < begin) throw new Error(`${PAGE} has lost the marks around its table`)
  return `${page.slice(0, begin)}${BEGIN}\n\n${table(results)}\n\n${page.slice(end)}`
}

function table(results: ReadonlyMap<string, readonly Result[]>): string {
  const titles = [...results.keys()]
  const names = new Set([...results.values()].flat().map(({ name }) => name))
  const order = [...names].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))
  const cell = (title: string, name: string): string => {
    const found = results.get(title)?.find((one) => one.name === name)
    return found ? (found.ok ? 'works' : '**fails**') : '–'
  }
  return [
    `| | ${titles.join(' | ')} |`,
    `|---|${titles.map(() => '---|').join('')}`,
    ...order.map((name) => `| ${name} | ${titles.map((title) => cell(title, name)).join(' | ')} |`),
  ].join('\n')
}

const GROUPS = ['Sandbox', 'sandbox', 'network', 'commands', 'pty', 'files', 'git', 'Volume', 'error']

function rank(name: string): number {
  return GROUPS.findIndex((group) => name.startsWith(group))
}
