/** The files of a compose project in their order: each after those that it includes. */
import { posix } from 'node:path'
import { directoryOf } from '../file-tree.ts'
import type { Path } from '../toml/positions.ts'
import { printable, quoted } from '../toml/problem.ts'
import { type ComposeFile, type ComposeFiles, type ComposeVariables, withOuter } from './compose-file.ts'
import type { ComposeTable } from './schema.ts'
import { insideProject } from './service.ts'

interface Application {
  readonly paths: readonly string[]
  readonly directory: string
  readonly variables: ComposeVariables
  /** The files that include it, from the first on. */
  readonly trail?: readonly string[] | undefined
  /** What was read already: a file may be included by several others. */
  readonly known?: Map<string, readonly ComposeFile[]> | undefined
}

type Include = NonNullable<ComposeTable['include']>[number]

/**
 * As with Docker, an included file is a project of its own: its paths are relative to it, and what it defines
 * may not be defined by the file that includes it. `missing` is called for a file that cannot be read.
 */
export function orderedFiles(
  files: ComposeFiles,
  application: Application,
  missing: (path: string) => void,
): readonly ComposeFile[] {
  const { trail = [], known = new Map<string, readonly ComposeFile[]>() } = application
  const key = [application.directory, ...application.paths].join('\0')
  const before = known.get(key)
  if (before) return before
  const ordered: ComposeFile[] = []
  for (const path of application.paths) {
    const file = files.open(path, application.directory, application.variables)
    if (!file) {
      missing(path)
      continue
    }
    for (const [n, one] of (file.table.include ?? []).entries())
      for (const inner of includedBy(files, file, {
        one,
        at: ['include', n],
        trail: [...trail, path],
        known,
      }))
        if (!ordered.includes(inner)) ordered.push(inner)
    ordered.push(file)
  }
  known.set(key, ordered)
  return ordered
}

function includedBy(
  files: ComposeFiles,
  file: ComposeFile,
  {
    one,
    at,
    trail,
    known,
  }: {
    readonly one: Include
    readonly at: Path
    readonly trail: readonly string[]
    readonly known: Application['known']
  },
): readonly ComposeFile[] {
  const wrong = (message: string, hint: string, reason = 'compose.include'): ComposeFile[] => {
    file.remarks.push({ path: at, message, hint, reason })
    return []
  }
  const paths = one.path.flatMap((path) => insideProject(file, at, path) ?? [])
  const [first] = paths
  if (first === undefined) return []
  const directory =
    one.project_directory === undefined ? directoryOf(first) : insideProject(file, at, one.project_directory)
  if (directory === undefined) return []
  const again = paths.find((path) => trail.includes(path))
  if (again !== undefined)
    return wrong(
      `files include each other: ${[...trail.slice(trail.indexOf(again)), again].map((path) => printable(path)).join(' → ')}`,
      'remove one of these includes',
      'compose.cycle',
    )
  const env = one.env_file?.flatMap((path) => insideProject(file, at, path) ?? [])
  for (const path of env ?? [])
    if (files.text(path) === undefined) wrong(`there is no file ${quoted(path)}`, missingHint(files, path))
  const variables = withOuter(files.variables(directory, env), file.variables)
  const inner = orderedFiles(
    files,
    { paths, directory, variables, trail, known },
    (path) => void wrong(`there is no file ${quoted(path)}`, missingHint(files, path), 'compose.missing'),
  )
  for (const other of inner)
    for (const kind of ['services', 'volumes', 'configs', 'secrets'] as const)
      for (const name of Object.keys(other.table[kind] ?? {}))
        if (Object.hasOwn(file.table[kind] ?? {}, name))
          file.remarks.push({
            path: [kind, name],
            isKey: true,
            message: `is in ${printable(other.file)} too, which this file includes`,
            hint: 'rename one of them, or change it in compose.override.yaml',
            reason: 'compose.include',
          })
  return inner
}

/** For a file that a compose file names and that cannot be read. */
export function missingHint(files: Pick<ComposeFiles, 'isLeftOut'>, path: string): string {
  return files.isLeftOut(path)
    ? `git ignores ${printable(posix.basename(path))}, and such files are not read: let git track it`
    : 'the path is relative to the file that names it'
}
