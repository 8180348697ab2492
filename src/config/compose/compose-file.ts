/** One compose file: its table, where its parts are, and what is wrong with them. */
import { invalid } from '../../core/error.ts'
import { joinPath } from '../file-tree.ts'
import type { Path } from '../toml/positions.ts'
import { type Problem, problemsError, type Remark } from '../toml/problem.ts'
import { schemaRemarks } from '../toml/schema-problems.ts'
import { readEnvFile } from './env-file.ts'
import { interpolate } from './interpolate.ts'
import { type ComposeTable, composeSchema } from './schema.ts'
import { readYaml, type YamlDocument } from './yaml-document.ts'

/** Variables that values of a file may name. */
export interface ComposeVariables {
  get(name: string): string | undefined
  /** For messages about a variable that is not set: what sets it. */
  howToSet(name: string): string
  /** Every variable. */
  readonly all: Readonly<Record<string, string>>
}

export interface ComposeFile {
  readonly file: string
  /** Relative to the project. Paths in the file are relative to it. */
  readonly directory: string
  readonly document: YamlDocument
  readonly table: ComposeTable
  readonly variables: ComposeVariables
  lineOf(path: Path): number | undefined
  readonly remarks: Remark[]
  readonly notes: { readonly path: Path; readonly said: string }[]
}

/** The files of a project, as far as they may be read. */
export interface ReadableFiles {
  /** The text of a file of the project. */
  read(file: string): string | undefined
  /** Whether a file is there that may not be read, because git ignores it. */
  isLeftOut?(file: string): boolean
}

/** Files that one compose project may consist of, with those that are included and extended. */
const MOST_FILES = 32
/** Of all values together: a long variable may be in each of them. */
const LONGEST_VALUES = 4 * 1024 * 1024

/**
 * Reads each file once. SECURITY: CF-02. Variables come from the project's .env file, never from the
 * environment of the user: a file could otherwise read their secrets.
 */
export class ComposeFiles {
  readonly #sources: ReadableFiles
  readonly #read = new Map<string, ComposeFile>()
  #length = 0

  constructor(sources: ReadableFiles) {
    this.#sources = sources
  }

  /** Every file that was read, in the order of reading. */
  get all(): readonly ComposeFile[] {
    return [...this.#read.values()]
  }

  text(file: string): string | undefined {
    return this.#sources.read(file)
  }

  isLeftOut(file: string): boolean {
    return this.#sources.isLeftOut?.(file) ?? false
  }

  /** Everything that is wrong with the files, each problem with its place. */
  problems(): Problem[] {
    return this.all.flatMap(({ document, remarks }) => document.problems(remarks))
  }

  /** The variables of a directory's .env file, or of the named files. */
  variables(directory: string, named?: readonly string[]): ComposeVariables {
    const usual = joinPath(directory, '.env')
    const files = named ?? [usual]
    const all: Record<string, string> = {}
    for (const file of files) Object.assign(all, readEnvFile(this.text(file) ?? '', all))
    const hidden = files.find((file) => this.text(file) === undefined && this.isLeftOut(file))
    return variablesOf(all, hidden, files.at(-1) ?? usual)
  }

  /** Undefined if the project has no such file. The same file in another directory is another one. */
  open(file: string, directory: string, variables: ComposeVariables): ComposeFile | undefined {
    const key = `${directory}\0${file}`
    const known = this.#read.get(key)
    if (known) return known
    const text = this.text(file)
    if (text === undefined) return undefined
    if (this.#read.size >= MOST_FILES)
      throw invalid('compose.files', `${file}: a project has at most ${MOST_FILES} compose files`)
    const read = this.#parse(file, text, { directory, variables })
    this.#read.set(key, read)
    return read
  }

  #parse(
    file: string,
    text: string,
    { directory, variables }: Pick<ComposeFile, 'directory' | 'variables'>,
  ): ComposeFile {
    const unset = new Map<string, Path>()
    const document = readYaml({ file, text }, (scalar, path) => {
      const done = interpolate(
        scalar,
        (name) => variables.get(name),
        (name) => `; ${variables.howToSet(name)}`,
      )
      for (const name of done.unset) if (!unset.has(name)) unset.set(name, path)
      this.#length += done.text.length
      if (this.#length > LONGEST_VALUES)
        throw new Error('the values of the file are too long after their variables')
      return done.text
    })
    const result = composeSchema.safeParse(document.value, { reportInput: true })
    if (!result.success) throw problemsError(document.problems(schemaRemarks(result.error, composeSchema)))
    const notes = [...unset].map(([name, path]) => ({
      path,
      said: `the variable ${name} is not set and counts as empty; ${variables.howToSet(name)}`,
    }))
    return {
      file,
      directory,
      document,
      table: result.data,
      variables,
      lineOf: (path) => document.at(path)?.line,
      remarks: [],
      notes,
    }
  }
}

function variablesOf(
  all: Readonly<Record<string, string>>,
  hidden: string | undefined,
  file: string,
): ComposeVariables {
  return {
    all,
    get: (name) => (Object.hasOwn(all, name) ? all[name] : undefined),
    howToSet: (name) =>
      hidden === undefined
        ? `write ${name}=VALUE into ${file}`
        : `${hidden} is not read, because git ignores it: write a default, \${${name}:-VALUE}, or let git track the file`,
  }
}

/** As with Docker, the values of the including project go before those of the included one. */
export function withOuter(inner: ComposeVariables, outer: ComposeVariables): ComposeVariables {
  const all = { ...inner.all, ...outer.all }
  return { ...inner, all, get: (name) => (Object.hasOwn(all, name) ? all[name] : undefined) }
}
