/** Elixir: Mix projects and umbrella projects. */
import type { Candidate } from '../../evidence.ts'
import { directoryOf, type FileTree, joinPath } from '../../file-tree.ts'
import type { Detector, Finding, FoundCommand, Verb } from '../finding.ts'
import { packagesOf } from '../project-files/debian-packages.ts'
import { evidenceAt, findLine, linesIn } from '../project-files/find-lines.ts'
import { ownFiles } from '../project-files/ignored-directories.ts'
import { versionText } from '../project-files/parsed-file.ts'
import {
  isWithin,
  MOST_FINDINGS,
  MOST_PARTS,
  nearestAbove,
  pathInProject,
  relativeTo,
} from '../project-files/paths.ts'
import { versionFileCandidates } from '../project-files/version-files.ts'

interface Mix {
  readonly directory: string
  readonly file: string
  /** Directories of the applications below an umbrella. */
  readonly apps: readonly string[]
  readonly isUmbrella: boolean
}

export const detectElixir: Detector = (tree) => {
  const all = ownFiles(tree.named('mix.exs')).map((file) => mixOf(tree, file))
  const apps = new Set(all.flatMap((one) => one.apps))
  return all
    .filter(({ directory }) => !apps.has(directory))
    .slice(0, MOST_FINDINGS)
    .map((mix) => findingOf(tree, mix))
}

function mixOf(tree: FileTree, file: string): Mix {
  const directory = directoryOf(file)
  const written = findLine(linesIn(tree, file), /\bapps_path:[ \t]*"([^"]{1,200})"/)?.match[1]
  const path = written === undefined ? undefined : pathInProject(directory, written)
  const below = path === undefined || path === directory ? [] : tree.named('mix.exs').map(directoryOf)
  const apps = below
    .filter((one) => directoryOf(one) === path && one !== directory && isWithin(one, path))
    .slice(0, MOST_PARTS)
  return { directory, file, apps, isUmbrella: path !== undefined }
}

function findingOf(tree: FileTree, mix: Mix): Finding {
  const { directory, file, apps, isUmbrella } = mix
  const named = findLine(linesIn(tree, file), /\bapp:[ \t]*:(\w{1,60})/)
  const evidence = evidenceAt(file, named?.line, named?.match[0] ?? 'a project of Mix')
  const lockfile = [joinPath(directory, 'mix.lock')].find((path) => tree.has(path))
  const phoenix = dependency(tree, mix, 'phoenix')
  const notes = ['packages come from hosts without a preset: allow the hosts of Hex']
  if (!lockfile) notes.push('there is no mix.lock: the newest matching packages are installed')
  return {
    language: 'elixir',
    directory,
    evidence,
    versions: versionsOf(tree, mix),
    manager: { name: 'mix', evidence, beat: [] },
    tools: [],
    ...(lockfile && { lockfile }),
    inputs: inputsOf(tree, mix, lockfile),
    commands: commandsOf(tree, mix, phoenix),
    packages: packagesOf('build-essential git', evidence),
    generated: [joinPath(directory, 'deps'), joinPath(directory, '_build')],
    presets: [],
    ...(phoenix && { ports: [{ port: 4000, evidence: phoenix }] }),
    ...(isUmbrella && { members: apps.map((app) => relativeTo(directory, app)) }),
    notes,
  }
}

function filesOf({ file, apps }: Mix): readonly string[] {
  return [file, ...apps.map((app) => joinPath(app, 'mix.exs'))]
}

function dependency(tree: FileTree, mix: Mix, name: string) {
  for (const file of filesOf(mix)) {
    const found = findLine(linesIn(tree, file), new RegExp(`\\{[ \\t]*:${name}[ \\t]*,`))
    if (found) return evidenceAt(file, found.line, found.match.input)
  }
  return undefined
}

function versionsOf(tree: FileTree, mix: Mix): readonly Candidate[] {
  const file = nearestAbove(tree, mix.directory, ['.elixir-version', '.exenv-version'])
  const own = file ? findLine(linesIn(tree, file), /^[ \t]*v?(\d[\w.-]{0,40})[ \t]*$/) : undefined
  const ranges = filesOf(mix).flatMap((path): readonly Candidate[] => {
    const found = findLine(linesIn(tree, path), /\belixir:[ \t]*"([^"]{1,80})"/)
    const value = versionText(found?.match[1])
    return found && value
      ? [{ value, rank: 'range', evidence: evidenceAt(path, found.line, found.match[0]) }]
      : []
  })
  const seen = new Set<string>()
  return [
    ...(file && own
      ? [
          {
            value: (own.match[1] ?? '').replace(/-otp-\d+$/, ''),
            rank: 'version file' as const,
            evidence: evidenceAt(file, own.line, own.match[0]),
          },
        ]
      : []),
    ...versionFileCandidates(tree, mix.directory, 'elixir'),
    ...ranges.filter(({ value }) => !seen.has(value) && seen.add(value)),
  ]
}

/** The configuration is read when dependencies are compiled; the runtime configuration is not. */
function inputsOf(tree: FileTree, mix: Mix, lockfile: string | undefined): readonly string[] {
  const settings = [mix.directory, ...mix.apps].flatMap((one) => {
    const directory = joinPath(one, 'config')
    return tree
      .in(directory)
      .flatMap((name) => (name.endsWith('.exs') && name !== 'runtime.exs' ? [joinPath(directory, name)] : []))
  })
  return [...filesOf(mix), ...(lockfile ? [lockfile] : []), ...settings]
}

function commandsOf(
  tree: FileTree,
  mix: Mix,
  phoenix: FoundCommand['evidence'] | undefined,
): Partial<Record<Verb, FoundCommand>> {
  const { directory, file } = mix
  const evidence = evidenceAt(file, undefined, 'a project of Mix')
  const credo = dependency(tree, mix, 'credo')
  const style = joinPath(directory, '.formatter.exs')
  const lint = credo
    ? { run: 'mix credo', evidence: credo }
    : tree.has(style) && {
        run: 'mix format --check-formatted',
        evidence: evidenceAt(style, undefined, '.formatter.exs'),
      }
  const served = phoenix && { run: 'mix phx.server', evidence: phoenix }
  const start = releaseOf(tree, mix) ?? served ?? applicationOf(tree, mix)
  return {
    setup: {
      // Compiling in advance saves time; it may fail without the sources.
      run: 'mix local.hex --force && mix local.rebar --force && mix deps.get && { mix deps.compile; MIX_ENV=test mix deps.compile; true; }',
      evidence,
    },
    ...(served && { dev: served }),
    test: { run: 'mix test', evidence },
    ...(lint && { lint }),
    build: { run: 'mix compile', evidence },
    ...(start && { start }),
  }
}

/** A release is named in the manifest and has its own program. */
function releaseOf(tree: FileTree, { file }: Mix): FoundCommand | undefined {
  const lines = linesIn(tree, file)
  const found = findLine(lines, /\breleases:[ \t]*(?:\[[ \t]*(\w{1,60}):)?/)
  if (!found) return undefined
  const next = lines.slice(found.line, found.line + 3).map(({ text }) => /^[ \t]*(\w{1,60}):/.exec(text)?.[1])
  const name = found.match[1] ?? next.find(Boolean) ?? findLine(lines, /\bapp:[ \t]*:(\w{1,60})/)?.match[1]
  if (name === undefined) return undefined
  return {
    run: `MIX_ENV=prod mix release --overwrite ${name} && _build/prod/rel/${name}/bin/${name} start`,
    evidence: evidenceAt(file, found.line, 'releases:'),
  }
}

/** An application that runs until it is stopped. */
function applicationOf(tree: FileTree, { file }: Mix): FoundCommand | undefined {
  const found = findLine(linesIn(tree, file), /\bmod:[ \t]*\{/)
  return found && { run: 'mix run --no-halt', evidence: evidenceAt(file, found.line, found.match.input) }
}
