// Prints every text that a person may read: messages, hints, help, notices and refusals, with file and line.
// Read the list as a new user would, and rewrite what needs a second reading.
//   scripts/with-node scripts/messages.ts [part of a path]

import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { lineAt, parse } from '../test/tidy/source.ts'

const ROOT = join(import.meta.dirname, '..')
/** Two words in a row, which patterns, names and most code do not have. */
const WORDS = /\p{L}{2,},? \p{L}{2,}/u
const SQL_OR_SHELL = /^\s*(?:SELECT|INSERT|UPDATE|DELETE|CREATE|PRAGMA|ALTER|#!|set -e)/

const [part = ''] = process.argv.slice(2)
for (const path of globSync('src/**/*.ts', { cwd: ROOT }).sort()) {
  if (!path.includes(part) || /\.test\.ts$|\/testing\/|\/fixtures\//.test(path)) continue
  const file = parse({ path, text: readFileSync(join(ROOT, path), 'utf8') })
  const texts = [...file.literals.map(({ value, start }) => ({ start, text: value })), ...templates(file)]
  for (const { start, text } of texts.sort((a, b) => a.start - b.start))
    if (WORDS.test(text) && !SQL_OR_SHELL.test(text))
      console.log(`${path}:${lineAt(file.text, start)}: ${text.replaceAll(/\s+/g, ' ').trim()}`)
}

/** Outermost templates, with their expressions as they are written. */
function templates({ text, code }: { text: string; code: string }): { start: number; text: string }[] {
  const found: { start: number; text: string }[] = []
  const open: { start: number; braces: number }[] = []
  for (let at = 0; at < code.length; at++) {
    const inner = open.at(-1)
    if (code[at] === '`' && (!inner || inner.braces > 0)) open.push({ start: at + 1, braces: 0 })
    else if (code[at] === '`' && inner) {
      open.pop()
      if (open.length === 0) found.push({ start: inner.start, text: text.slice(inner.start, at) })
    } else if (inner && code[at] === '{') inner.braces++
    else if (inner && code[at] === '}') inner.braces--
  }
  return found
}
