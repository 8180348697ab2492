/** YAML files of a project as data. Every scalar is text as it stands there, so that `3.10` is not `3.1`. */
import { parseDocument } from 'yaml'
import type { FileTree } from '../tree.ts'
import { isTable, lineAt, plainText, problemOf, type Read } from './reading.ts'

export interface YamlRead extends Read {
  /** The line of what lies at a path of keys and positions. */
  lineAt(path: readonly (string | number)[]): number | undefined
}

/** Parsing takes half a second for so much, at worst, and nobody writes more by hand. */
const LONGEST = 128 * 1024
/** A file of some hundred bytes can otherwise stand for gigabytes. */
const MOST_ALIASES = 100
/** What looks for doubled keys and writes errors out takes time that grows with the square of the file. */
const OPTIONS = { schema: 'failsafe', merge: true, uniqueKeys: false, prettyErrors: false } as const

export function readYaml(tree: FileTree, path: string): YamlRead | undefined {
  return tree.readAs(path, yamlOf)
}

export function yamlOf(raw: string): YamlRead {
  const text = plainText(raw)
  const failed = (problem: string): YamlRead => ({ text, data: {}, problem, lineAt: () => undefined })
  if (text.length > LONGEST) return failed(`it is longer than ${LONGEST} characters`)
  try {
    const document = parseDocument(text, OPTIONS)
    const [error] = document.errors
    if (error) return failed(`${problemOf(error)} in line ${lineAt(text, error.pos[0])}`)
    const data: unknown = document.toJS({ maxAliasCount: MOST_ALIASES })
    if (!isTable(data)) return failed('it does not hold a table')
    return {
      text,
      data,
      lineAt(path) {
        const node = document.getIn(path, true) as { range?: readonly number[] | null } | undefined
        const offset = node?.range?.[0]
        return offset === undefined ? undefined : lineAt(text, offset)
      },
    }
  } catch (error) {
    return failed(problemOf(error))
  }
}
