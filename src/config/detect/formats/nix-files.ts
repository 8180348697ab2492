/**
 * `flake.nix`, `shell.nix`, `default.nix` and `replit.nix`. They are programs, and AgentPod does not evaluate
 * them: only lists of plain names are read.
 */
import type { FileTree } from '../../file-tree.ts'
import { linesIn } from '../project-files/find-lines.ts'
import { readTextFile, shortQuote } from '../project-files/parsed-file.ts'
import { type FormatDraft, type FormatFile, newFormat } from './format-file.ts'
import { addNixPackage } from './nix-names.ts'

const FILES = ['flake.nix', 'shell.nix', 'default.nix'] as const

export function readNixFiles(tree: FileTree): readonly FormatFile[] {
  return FILES.filter((file) => tree.has(file)).map((file) => {
    const format = newFormat(file, 'nix')
    readNixList(tree, format)
    return format
  })
}

const LIST =
  /^\s{0,40}(?:deps|packages|buildInputs|nativeBuildInputs|propagatedBuildInputs)\s{0,10}=\s{0,10}(?:with\s{1,10}[\w.-]{1,60}\s{0,10};\s{0,10})?\[(.*)$/
const HOOK = /^\s{0,40}shellHook\s{0,10}=/
const PLAIN = /^[A-Za-z_][\w'.+-]{0,100}$/
const MOST_LINES = 2000
const MOST_NAMES = 100

/** The plain names in lists of packages, each with its line. What is computed is noted. */
export function readNixList(tree: FileTree, format: FormatDraft): void {
  const { file } = format
  if (readTextFile(tree, file) === undefined) {
    format.notes.push(`${file} is not used: it is not a text file of at most 1 MiB`)
    return
  }
  let isInside = false
  let hasList = false
  let count = 0
  let depth = 0
  let comment = false
  const lines = linesIn(tree, file)
  if (lines.length > MOST_LINES)
    format.notes.push(`${file}:${MOST_LINES + 1}: the lines from here on are not used`)
  for (const { text, number } of lines.slice(0, MOST_LINES)) {
    let rest = comment ? (text.split('*/', 2)[1] ?? '') : text
    comment = comment && !text.includes('*/')
    rest = rest.replace(/\/\*.*?\*\//g, ' ').replace(/#.*$/, '')
    if (rest.includes('/*')) {
      comment = true
      rest = rest.slice(0, rest.indexOf('/*'))
    }
    if (HOOK.test(rest))
      format.notes.push(`${file}:${number}: shellHook is not used: AgentPod does not evaluate Nix files`)
    const opened: string | undefined = isInside ? rest : LIST.exec(rest)?.[1]
    if (opened === undefined) continue
    hasList = true
    const { names, computed, rest: after } = plainNames(opened, depth)
    depth = after ?? 0
    isInside = after !== undefined
    for (const name of names) {
      if (++count > MOST_NAMES) {
        format.notes.push(`${file}:${number}: the packages after the first ${MOST_NAMES} are not used`)
        break
      }
      addNixPackage(format, name, { file, line: number, said: shortQuote(text) })
    }
    if (computed !== undefined)
      format.notes.push(
        `${file}:${number}: ${shortQuote(computed, 60)} is not used: it is computed, and AgentPod does not evaluate Nix files`,
      )
  }
  if (!hasList)
    format.notes.push(
      `${file} is not used: it has no plain list of packages, and AgentPod does not evaluate Nix files; where the base has nix, nix = [${file === 'flake.nix' ? '".#default"' : '"..."'}] under [environment.packages] builds in the sandbox`,
    )
}

/** The plain names of a line that is inside a list, below `depth` brackets that are open in it. */
function plainNames(
  line: string,
  depth: number,
): {
  readonly names: readonly string[]
  /** The first part that is computed. */
  readonly computed: string | undefined
  /** How many brackets are open at its end; undefined if the list ends. */
  readonly rest: number | undefined
} {
  const names: string[] = []
  let computed: string | undefined
  let open = depth
  for (const [word] of line.matchAll(/[()[\]{}]|[^\s()[\]{}]+/g)) {
    if (word === ']' && open === 0) return { names, computed, rest: undefined }
    if (open === 0 && PLAIN.test(word)) names.push(word)
    else if (open === 0) computed ??= line.slice(line.indexOf(word)).trim()
    if (/[([{]/.test(word)) open++
    else if (/[)\]}]/.test(word)) open--
  }
  return { names, computed, rest: open }
}
