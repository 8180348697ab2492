/**
 * The header of what `result-script.ts` writes: seven lines of text with the length of each list, then the
 * lists, whose records end in a NUL byte, and then the pack:
 *
 *     agentpod-result 1
 *     tree <id>
 *     commits <bytes>
 *     large <bytes>
 *     left <bytes>
 *     submodules <bytes>
 *     <empty>
 *
 * SECURITY: it is written in the sandbox and hostile. Everything is bounded, no number of it decides how much
 * is allocated, and texts for the user contain no control characters.
 */
import type { RunResult } from '../../../core/run.ts'
import { replaceHidden } from '../../../util/hidden-characters.ts'

/** A complete header ends before this many bytes. */
export const LONGEST_HEADER_BYTES = 256 * 1024

const FORM =
  /^agentpod-result 1\ntree ([0-9a-f]{40})\ncommits (\d{1,6})\nlarge (\d{1,6})\nleft (\d{1,6})\nsubmodules (\d{1,6})\n\n/
const LONGEST_LINES = 256
const LONGEST_LIST_BYTES = 64 * 1024
const MOST_COMMITS = 50
const MOST_PATHS = 1000
const LONGEST_PATH = 4096
const LONGEST_SUBJECT = 200

export type ResultHeader = Omit<RunResult, 'packBytes'>

/** Undefined if the bytes are not a header, or not yet a complete one. */
export function parseResultHeader(
  bytes: Buffer,
): { readonly header: ResultHeader; readonly packAt: number } | undefined {
  const lines = FORM.exec(bytes.subarray(0, LONGEST_LINES).toString('latin1'))
  if (!lines) return undefined
  const [text, tree = '', ...lengths] = lines
  let at = text.length
  const lists: string[][] = []
  for (const length of lengths.map(Number)) {
    if (length > LONGEST_LIST_BYTES || at + length > bytes.length) return undefined
    lists.push(recordsOf(bytes.subarray(at, at + length)))
    at += length
  }
  const [commits = [], large = [], left = [], submodules = []] = lists
  const tooLarge = large.slice(0, MOST_PATHS).flatMap(largeFile)
  const isNamed = new Set([...submodules, ...tooLarge.map(({ path }) => path)])
  return {
    packAt: at,
    header: {
      tree,
      commits: commits
        .slice(0, MOST_COMMITS)
        .map((subject) => printable(subject, LONGEST_SUBJECT))
        .filter((subject) => subject !== ''),
      tooLarge: tooLarge.map(({ path, sizeBytes }) => ({ path: printable(path, LONGEST_PATH), sizeBytes })),
      leftOut: paths(left.filter((path) => !isNamed.has(path))),
      submodules: paths(submodules),
    },
  }
}

/** A list that was cut off ends with an incomplete record, which is dropped. */
function recordsOf(list: Buffer): string[] {
  return list.toString('utf8').split('\0').slice(0, -1)
}

function largeFile(record: string): { readonly path: string; readonly sizeBytes: number }[] {
  const [, size, path] = /^(\d{1,15}) (.+)$/s.exec(record) ?? []
  return size === undefined || path === undefined ? [] : [{ path, sizeBytes: Number(size) }]
}

function paths(records: readonly string[]): string[] {
  return records.slice(0, MOST_PATHS).map((path) => printable(path, LONGEST_PATH))
}

function printable(text: string, longest: number): string {
  return replaceHidden(text.slice(0, longest))
}
