// How large a folder, a seam, a parameter list and a comment may be.

import { posix } from 'node:path'
import { isTest, lineAt, type Parsed, type SourceFile, type Violation } from './source.ts'

const MOST_FILES = 25
/** One file for each command of the command line. */
const UNBOUNDED_FOLDERS = ['src/cli/commands']

export function checkFolders(paths: readonly string[]): Violation[] {
  const counts = new Map<string, number>()
  for (const path of paths) {
    const isSource = /^src\/.*\.ts$|^native\/.*\.go$/.test(path) && !/(?:\.test\.ts|_test\.go)$/.test(path)
    const folder = posix.dirname(path)
    if (isSource) counts.set(folder, (counts.get(folder) ?? 0) + 1)
  }
  return [...counts]
    .filter(([folder, count]) => count > MOST_FILES && !UNBOUNDED_FOLDERS.includes(folder))
    .map(([path, count]) => ({ path, line: 1, rule: `${count} files, of at most ${MOST_FILES}` }))
}

/** Files whose interfaces are implemented in other folders, or outside of this repository. */
const SEAMS = [
  /^src\/core\/provider\.ts$/,
  /^src\/core\/guest[\w-]*\.ts$/,
  /^src\/bases\/base-kind\.ts$/,
  /^src\/agents\/agent\.ts$/,
  /^src\/agents\/drivers\/driver\.ts$/,
  /^src\/sync\/two-way\/side\.ts$/,
]
const MOST_MEMBERS = 12
/** The public methods and properties of a class that many folders call. */
const CLASSES: Readonly<Record<string, { readonly name: string; readonly most: number }>> = {
  'src/engine/engine.ts': { name: 'Engine', most: 20 },
}

const INTERFACE =
  /^export (?:interface (?<name>\w+)|type (?<alias>\w+)[^=\n{]*=)[^{}\n]*\{\n(?<body>[\s\S]*?)^\}/gm
/** The formatter indents members by two; what continues a member is indented further. */
const MEMBER = /^ {2}(?:readonly )?(?:[\w$]+|\[)(?<optional>\?)?/gm
const PUBLIC_MEMBER = /^ {2}(?!private\b|protected\b|constructor\b|static \{)[a-zA-Z]/gm

/** Counts what an implementation must have; members that it may leave out are not counted. */
export function checkSeams(files: readonly Parsed[]): Violation[] {
  return files.flatMap((file) => {
    const { path, code } = file
    const violation = (index: number, name: string, count: number, most: number): Violation[] =>
      count > most
        ? [{ path, line: lineAt(code, index), rule: `${name} has ${count} members, of at most ${most}` }]
        : []
    const bounded = CLASSES[path]
    const body =
      bounded && new RegExp(`^export class ${bounded.name}\\b[^\\n]*\\n([\\s\\S]*?)^\\}`, 'm').exec(code)
    const ofClass =
      bounded && body
        ? violation(body.index, bounded.name, (body[1]?.match(PUBLIC_MEMBER) ?? []).length, bounded.most)
        : []
    if (!SEAMS.some((seam) => seam.test(path))) return ofClass
    return [...code.matchAll(INTERFACE)].flatMap(({ index, groups }) => {
      const members = [...(groups?.['body'] ?? '').matchAll(MEMBER)]
      const required = members.filter((member) => member.groups?.['optional'] === undefined)
      return violation(index, groups?.['name'] ?? groups?.['alias'] ?? '', required.length, MOST_MEMBERS)
    })
  })
}

const MOST_PARAMETERS = 5
const FUNCTION =
  /\bfunction\*?\s*(?<name>[\w$]*)\s*(?:<[^()]*>)?\(|^ {2,}(?:(?:private|static|async|override)\s+)*(?!(?:if|for|while|switch|catch|return|await|function|new)\b)#?(?<method>[\w$]+)(?:<[^()]*>)?\(/gm

/** Functions and methods; a function that takes more takes one object. */
export function checkParameters(files: readonly Parsed[]): Violation[] {
  return files
    .filter(({ path }) => !isTest(path))
    .flatMap(({ path, code }) =>
      [...code.matchAll(FUNCTION)].flatMap((match) => {
        const { count, end } = parameters(code, match.index + match[0].length)
        const isDefinition =
          match.groups?.['name'] !== undefined || /^\s*[:{]/.test(code.slice(end, end + 10))
        if (!isDefinition || count <= MOST_PARAMETERS) return []
        const name = match.groups?.['name'] ?? match.groups?.['method']
        const rule = `${name} has ${count} parameters, of at most ${MOST_PARAMETERS}`
        return [{ path, line: lineAt(code, match.index), rule }]
      }),
    )
}

/** Counts the parameters from behind the opening bracket on. */
function parameters(code: string, start: number): { readonly count: number; readonly end: number } {
  let depth = 1
  let count = 0
  let isBegun = false
  let at = start
  for (; at < code.length && depth > 0; at++) {
    const char = code[at] ?? ''
    if ('([{<'.includes(char)) depth++
    // An arrow closes nothing.
    else if (')]}'.includes(char) || (char === '>' && code[at - 1] !== '=')) depth--
    else if (char === ',' && depth === 1) {
      isBegun = false
      continue
    }
    if (depth > 0 && !isBegun && /\S/.test(char)) {
      isBegun = true
      count++
    }
  }
  return { count, end: at }
}

const WIDEST_COMMENT = 110

/** A line that has a comment, or a part of one. An address may be longer. */
export function checkCommentWidth(files: readonly SourceFile[], parsed: readonly Parsed[]): Violation[] {
  const comments = new Map(parsed.map(({ path, comments: lines }) => [path, lines]))
  return files.flatMap(({ path, text }) =>
    text.split('\n').flatMap((line, at) => {
      const isComment = comments.get(path)?.has(at + 1) ?? /^\s*\/\/|\t\/\/ | \/\/ /.test(line)
      return isComment && [...line].length > WIDEST_COMMENT && !/https?:\/\//.test(line)
        ? [
            {
              path,
              line: at + 1,
              rule: `a comment of ${[...line].length} columns, of at most ${WIDEST_COMMENT}`,
            },
          ]
        : []
    }),
  )
}
