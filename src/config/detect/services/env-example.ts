/** Example files of environment variables. A project's real ones are never read. */
import { directoryOf, type FileTree } from '../../file-tree.ts'
import { isIgnored } from '../project-files/ignored-directories.ts'
import { readTextFile } from '../project-files/parsed-file.ts'

export interface EnvEntry {
  readonly file: string
  readonly line: number
  readonly name: string
  readonly value: string
}

const NAMES =
  /^(?:\.env\.(?:example|sample|template|test|testing|dist|development|ci|local\.example|test\.example|dev\.example)|(?:example|sample|template)\.env|env\.(?:example|sample)|\.env[-_](?:example|sample|template))$/
const MOST_FILES = 20
const MOST_LINES = 2000

/** Nearest to the root first. */
export function envExamples(tree: FileTree): readonly EnvEntry[] {
  return tree
    .matching(NAMES)
    .filter((file) => !isIgnored(directoryOf(file)))
    .toSorted((a, b) => a.split('/').length - b.split('/').length || (a < b ? -1 : 1))
    .slice(0, MOST_FILES)
    .flatMap((file) =>
      (readTextFile(tree, file) ?? '')
        .split('\n')
        .slice(0, MOST_LINES)
        .flatMap((text, index) => {
          const [, name, value = ''] =
            /^\s{0,20}(?:export\s{1,5})?([A-Za-z_]\w{0,80})\s{0,5}=\s{0,5}(.{0,1000})$/.exec(text) ?? []
          return name === undefined ? [] : [{ file, line: index + 1, name, value: unquoted(value) }]
        }),
    )
}

function unquoted(value: string): string {
  const [, , inner] = /^(['"])(.*?)\1/.exec(value) ?? []
  return inner ?? value.replace(/\s#.*$/, '').trim()
}
