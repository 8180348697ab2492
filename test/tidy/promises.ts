// The id of every promise in SPECIFICATION.md is in the names of the tests that prove it, and tests name no
// other promise.

import { lineAt, type SourceFile, type Violation } from './source.ts'

const SPECIFICATION = 'SPECIFICATION.md'
const PROMISE = /^- \*\*(?<id>[A-Z]+-\d+)\.\*\*(?<text>[\s\S]*?)(?=\n- |\n\n|(?![\s\S]))/gm
const PROMISE_ID = /\b(?:BOX|LIFE|DOCKER|PROV|STATE|VOL|GRP|CMP|NET|ENV|FMT|IMG|DF|DC|RUN|API|ISO)-\d+\b/g
/** The ids of promises, attacks and findings that a name, or the comment above a Go test, begins with. */
const IDS_OF_NAME = /['"`](?<ids>(?:[A-Z]+-?\d+[,:]? )*[A-Z]+-?\d+\b)/g
const IDS_OF_COMMENT = /\/\/ (?<ids>(?:[A-Z]+-?\d+[,:]? )*[A-Z]+-?\d+\b)/g

export function checkPromises(files: readonly SourceFile[]): Violation[] {
  const texts = new Map(files.map(({ path, text }) => [path, text]))
  const specification = texts.get(SPECIFICATION) ?? ''
  const promises = [...specification.matchAll(PROMISE)].map(({ index, groups }) => ({
    line: lineAt(specification, index),
    id: groups?.['id'] ?? '',
    text: groups?.['text'] ?? '',
  }))
  const known = new Set(promises.map(({ id }) => id))
  const unproven = promises.flatMap(({ line, id, text }) => {
    const tests = [...text.matchAll(/`([^`\s]+\.(?:ts|go))`/g)].map(([, path = '']) => path)
    if (tests.length === 0 && !text.includes('not proven by a test yet'))
      return [{ path: SPECIFICATION, line, rule: `${id} names no test` }]
    return tests
      .filter((path) => !idsIn(path, texts.get(path) ?? '').some((one) => one.id === id))
      .map((path) => ({ path: SPECIFICATION, line, rule: `no name of a test in ${path} has ${id}` }))
  })
  const unknown = files.filter(isTestFile).flatMap(({ path, text }) =>
    idsIn(path, text)
      .filter(({ id }) => !known.has(id))
      .map(({ id, at }) => ({ path, line: lineAt(text, at), rule: `${id} is not in ${SPECIFICATION}` })),
  )
  return [...unproven, ...unknown]
}

function idsIn(path: string, text: string): { readonly id: string; readonly at: number }[] {
  const starts = text.matchAll(path.endsWith('.go') ? IDS_OF_COMMENT : IDS_OF_NAME)
  return [...starts].flatMap(({ index, groups }) =>
    (groups?.['ids']?.match(PROMISE_ID) ?? []).map((id) => ({ id, at: index })),
  )
}

function isTestFile({ path }: SourceFile): boolean {
  return /^(?:src|test|native|scripts)\/.*(?:\.ts|_test\.go)$/.test(path) && !path.startsWith('test/tidy')
}
