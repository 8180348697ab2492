/** Parses YAML files of a project. Every scalar stays text, so that `3.10` does not become `3.1`. */

import { type Document, parseDocument, visit } from 'yaml'
import { isObject } from '../../../util/untrusted-json.ts'
import type { FileTree } from '../../file-tree.ts'
import { lineAt, normalizeText, type ParsedFile, parseProblem } from './parsed-file.ts'

export interface YamlFile extends ParsedFile {
  /** The line of the value at a path of keys and indexes. */
  lineAt(path: readonly (string | number)[]): number | undefined
}

/** Parsing this much takes up to half a second, and hand-written files are shorter. */
const LONGEST = 128 * 1024
/**
 * Without a limit, a file of a few hundred bytes can expand to gigabytes. The library also reads the whole
 * file for each alias.
 */
const MOST_ALIASES = 100
/** The check for duplicate keys and pretty errors take quadratic time. */
const OPTIONS = { schema: 'failsafe', merge: true, uniqueKeys: false, prettyErrors: false } as const

export function readYamlFile(tree: FileTree, path: string): YamlFile | undefined {
  return tree.readAs(path, parseYaml)
}

export function parseYaml(raw: string): YamlFile {
  const text = normalizeText(raw)
  const failed = (problem: string): YamlFile => ({ text, data: {}, problem, lineAt: () => undefined })
  if (text.length > LONGEST) return failed(`it is longer than ${LONGEST} characters`)
  try {
    const document = parseDocument(text, OPTIONS)
    const [error] = document.errors
    if (error) return failed(`${parseProblem(error)} in line ${lineAt(text, error.pos[0])}`)
    if (hasManyAliases(document)) return failed(`it has more than ${MOST_ALIASES} aliases`)
    const data: unknown = document.toJS({ maxAliasCount: MOST_ALIASES })
    if (!isObject(data)) return failed('it does not contain a table')
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
    return failed(parseProblem(error))
  }
}

function hasManyAliases(document: Document): boolean {
  let count = 0
  visit(document, { Alias: () => (++count > MOST_ALIASES ? visit.BREAK : undefined) })
  return count > MOST_ALIASES
}
