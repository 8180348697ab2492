// Links in documents lead somewhere, and the catalogue of attacks is whole.

import { posix } from 'node:path'
import { lineAt, type SourceFile, type Violation } from './source.ts'

const LINK = /\[[^\]\n]*\]\((?<target>[^()\s]+)(?:\s+"[^"]*")?\)/g

/** `exists` is asked for paths from the repository's top. */
export function checkLinks(files: readonly SourceFile[], exists: (path: string) => boolean): Violation[] {
  return files
    .filter(({ path }) => path.endsWith('.md'))
    .flatMap(({ path, text }) =>
      [...withoutCode(text).matchAll(LINK)].flatMap((match) => {
        const target = decodeURI(match.groups?.['target'] ?? '').replace(/#.*$/, '')
        if (target === '' || /^[a-z][a-z0-9+.-]*:/i.test(target)) return []
        const found = target.startsWith('/') ? target.slice(1) : posix.join(posix.dirname(path), target)
        return exists(found)
          ? []
          : [{ path, line: lineAt(text, match.index), rule: `the link to ${target} leads nowhere` }]
      }),
    )
}

function withoutCode(text: string): string {
  return text.replace(/^ *(```|~~~)[\s\S]*?^ *\1|`[^`\n]*`/gm, (code) => code.replace(/[^\n]/g, ' '))
}

const ATTACKS = 'docs/attacks.md'
const ATTACK_ID = /\b(?:(?:FS|PR|LK|NW|CP|CF|SE|GT|RS|RL|SC|DK)-\d\d|I7)\b/g

/** Sources and tests cite attacks of the catalogue; each row names tests, and they mention its id. */
export function checkAttacks(files: readonly SourceFile[]): Violation[] {
  const texts = new Map(files.map(({ path, text }) => [path, text]))
  const catalogue = texts.get(ATTACKS) ?? ''
  const rows = [...catalogue.matchAll(/^\| (?<id>[A-Z]+-?\d+) \|.*\| (?<tests>[^|]*) \|$/gm)]
  const known = new Set(rows.map(({ groups }) => groups?.['id']))
  const unknown = files
    .filter(citesAttacks)
    .flatMap(({ path, text }) =>
      [...text.matchAll(ATTACK_ID)]
        .filter(([id]) => !known.has(id))
        .map(({ 0: id, index }) => ({ path, line: lineAt(text, index), rule: `${id} is not in ${ATTACKS}` })),
    )
  const untested = rows.flatMap(({ index, groups }) => {
    const id = groups?.['id'] ?? ''
    const tests = [...(groups?.['tests'] ?? '').matchAll(/`([^`]+)`/g)].map(([, path = '']) => path)
    const rules = tests
      .filter((path) => !texts.get(path)?.includes(id))
      .map((path) => `${path} does not mention ${id}`)
    return (tests.length === 0 ? [`${id} names no test`] : rules).map((rule) => ({
      path: ATTACKS,
      line: lineAt(catalogue, index),
      rule,
    }))
  })
  return [...unknown, ...untested]
}

function citesAttacks({ path }: SourceFile): boolean {
  return /^(?:src|native|test|scripts)\/.*\.(?:ts|go)$/.test(path) && !path.startsWith('test/tidy')
}
