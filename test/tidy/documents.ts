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
const ATTACK_ID = /\b(?:(?:FS|PR|LK|NW|CP|CF|SE|GT|RS|RL|SC)-\d\d|I7)\b/g

/** Comments cite attacks that the catalogue has, and the tests that a row names mention its id. */
export function checkAttacks(files: readonly SourceFile[]): Violation[] {
  const texts = new Map(files.map(({ path, text }) => [path, text]))
  const catalogue = texts.get(ATTACKS) ?? ''
  const rows = [...catalogue.matchAll(/^\| (?<id>[A-Z]+-?\d+) \|.*\| (?<tests>[^|]*) \|$/gm)]
  const known = new Set(rows.map(({ groups }) => groups?.['id']))
  const unknown = files
    .filter(isSource)
    .flatMap(({ path, text }) =>
      [...text.matchAll(/SECURITY:.*/g)].flatMap((comment) =>
        (comment[0].match(ATTACK_ID) ?? [])
          .filter((id) => !known.has(id))
          .map((id) => ({ path, line: lineAt(text, comment.index), rule: `${id} is not in ${ATTACKS}` })),
      ),
    )
  const untested = rows.flatMap((row) =>
    [...(row.groups?.['tests'] ?? '').matchAll(/`([^`]+)`/g)]
      .filter(([, test = '']) => !texts.get(test)?.includes(row.groups?.['id'] ?? ''))
      .map(([, test]) => ({
        path: ATTACKS,
        line: lineAt(catalogue, row.index),
        rule: `${test} does not mention ${row.groups?.['id']}`,
      })),
  )
  return [...unknown, ...untested]
}

function isSource({ path }: SourceFile): boolean {
  return /^(?:src|native)\/.*\.(?:ts|go)$/.test(path)
}
