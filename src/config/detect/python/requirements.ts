/** Parses pip requirements and requirements files. */
import type { Evidence } from '../../evidence.ts'
import { directoryOf, type FileTree, joinPath } from '../../file-tree.ts'
import { readTextFile, shortQuote } from '../project-files/parsed-file.ts'
import { pathInProject } from '../project-files/paths.ts'

export interface Requirement {
  /** In the one spelling that Python's packages are compared by. */
  readonly name: string
  readonly extras: readonly string[]
  /** As written, with its version. */
  readonly text: string
  readonly evidence: Evidence
}

export interface RequirementsFile {
  readonly path: string
  /** Its own, and those of the files that it includes. */
  readonly requirements: readonly Requirement[]
  /** Itself and every file that it includes. */
  readonly files: readonly string[]
  /** Directories of the project that it installs. */
  readonly local: readonly string[]
  /** Whether it pins hashes; then nothing without a hash can be installed with it. */
  readonly isHashed: boolean
  readonly notes: readonly string[]
}

const MOST_FILES = 50
const MOST_LINES = 5000

export function normalizedName(name: string): string {
  return name.toLowerCase().replaceAll(/[-_.]+/g, '-')
}

/** Undefined if it names no package. */
export function requirementOf(text: string, evidence: Evidence): Requirement | undefined {
  const written = text.slice(0, 500).trim()
  const [, name, extras = ''] =
    /^([A-Za-z0-9][\w.-]{0,100})\s{0,5}(?:\[([\w\s,.-]{0,200})\])?(?=[\s<>=!~;@(]|$)/.exec(written) ?? []
  if (name === undefined) return undefined
  return {
    name: normalizedName(name),
    extras: extras
      .split(',')
      .map((one) => normalizedName(one.trim()))
      .filter((one) => one !== ''),
    text: written.replace(/\s#.*$/, '').trim(),
    evidence,
  }
}

/** A file with all that it includes. A file that includes itself in the end is read once. */
export function readRequirements(tree: FileTree, path: string): RequirementsFile {
  const requirements: Requirement[] = []
  const files: string[] = [path]
  const archives = new Set<string>()
  const local = new Set<string>()
  const notes = new Set<string>()
  let isHashed = false
  for (const file of files) {
    const lines = joinedLines(readTextFile(tree, file) ?? '')
    for (const { text, line } of lines) {
      const evidence = { file, line, said: shortQuote(text) }
      if (text.includes('--hash=')) isHashed = true
      const [, included] = /^(?:-r|-c|--requirement|--constraint)[\s=]{0,5}(\S.{0,300})$/.exec(text) ?? []
      if (included !== undefined) {
        const found = pathInProject(directoryOf(file), included.trim())
        if (found === undefined || !tree.has(found))
          notes.add(`${shortQuote(file)} includes ${shortQuote(included, 60)}, which does not exist`)
        else if (!files.includes(found) && files.length < MOST_FILES) files.push(found)
        continue
      }
      const place = localPath(text)
      if (place !== undefined) addLocal(tree, directoryOf(file), place, local, archives)
      else if (/^(?:-e\s+|--editable[\s=]+)?(?:git|hg|svn|bzr)\+/.test(text))
        notes.add(
          `${shortQuote(file)} takes ${shortQuote(text, 60)} from a repository: allow its host, which setup needs`,
        )
      else if (!text.startsWith('-')) {
        const requirement = requirementOf(text, evidence)
        if (requirement) requirements.push(requirement)
      }
    }
  }
  return {
    path,
    requirements,
    files: [...files, ...archives],
    local: [...local],
    isHashed,
    notes: [...notes],
  }
}

function joinedLines(text: string): readonly { readonly text: string; readonly line: number }[] {
  const joined: { text: string; line: number }[] = []
  let open = false
  for (const [index, raw] of text.split('\n').slice(0, MOST_LINES).entries()) {
    const isContinued = raw.endsWith('\\')
    const part = (isContinued ? raw.slice(0, -1) : raw)
      .slice(0, 2000)
      .replace(/(?:^|\s)#.*$/, '')
      .trim()
    const last = joined.at(-1)
    if (open && last) last.text = `${last.text} ${part}`.slice(0, 4000)
    else if (part !== '' || isContinued) joined.push({ text: part, line: index + 1 })
    open = isContinued
  }
  return joined
}

/** `-e .`, `./lib`, `file:lib`, with extras behind. */
function localPath(text: string): string | undefined {
  const plain = text.replace(/^(?:-e|--editable)[\s=]+/, '')
  if (/^[a-z+]{2,20}:\/\//.test(plain)) return undefined
  const path = plain
    .replace(/^file:/, '')
    .replace(/[[;].*$/, '')
    .trim()
  if (plain !== text) return path
  return /^\.{1,2}(?:\/|$)/.test(path) || plain.startsWith('file:') ? path : undefined
}

/**
 * Paths in a requirements file are relative to where pip runs, which is usually the file's directory or the
 * one above.
 */
function addLocal(
  tree: FileTree,
  directory: string,
  path: string,
  local: Set<string>,
  archives: Set<string>,
): void {
  for (const from of [directory, directoryOf(directory)]) {
    const found = pathInProject(from, path)
    if (found === undefined) continue
    if (tree.has(found)) {
      if (archives.size < MOST_FILES) archives.add(found)
      return
    }
    if (['pyproject.toml', 'setup.py', 'setup.cfg'].some((name) => tree.has(joinPath(found, name)))) {
      if (local.size < MOST_FILES) local.add(found)
      return
    }
  }
}
