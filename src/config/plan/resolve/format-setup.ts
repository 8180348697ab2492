/**
 * Commands that other files run when the environment is built, and at every start. A command that installs
 * what a manifest lists is part of that manifest's step; the rest runs after it, on all files of the project.
 */
import { commandSequence } from '../../../util/shell/shell-script.ts'
import { shellWord } from '../../../util/shell/shell-word.ts'
import type { Detected } from '../../detect/detect.ts'
import type { Finding } from '../../detect/finding.ts'
import type { FormatFile, SetupCommand } from '../../detect/formats/format-file.ts'
import { aptPackages, shellCommands, shellLines } from '../../detect/instructions/shell-lines.ts'
import { pathInProject } from '../../detect/project-files/paths.ts'
import type { Rejected } from '../../evidence.ts'
import type { ClientPreset } from '../../presets/catalog.ts'
import { printable } from '../../toml/problem.ts'
import type { CommandPlan, SetupPlan } from '../plan.ts'
import { whyBeaten } from './by-rank.ts'

interface Installer {
  /** The start of its commands. */
  readonly words: RegExp
  readonly preset?: ClientPreset
  /** Package managers that install the same. */
  readonly managers: readonly string[]
  /** Commands that install what the manifest lists, and nothing else. */
  readonly plain: RegExp
}

const NODE = ['npm', 'pnpm', 'yarn', 'yarn-berry', 'bun']

const INSTALLERS: readonly Installer[] = [
  {
    words:
      /^(?:npm (?:ci|clean-install|i|install)|(?:pnpm|bun) (?:i|install)|yarn(?: install)?(?= -|$)|corepack enable)\b/,
    preset: 'npm',
    managers: NODE,
    plain:
      /^(?:npm (?:ci|i|install)|pnpm (?:i|install)|yarn(?: install)?|bun (?:i|install)|corepack enable)(?: --(?:frozen-lockfile|immutable|no-audit|no-fund|prefer-offline|production=false))*$/,
  },
  {
    words:
      /^(?:pip3? install|python3? -m (?:pip install|venv)|uv (?:sync|pip install|venv)|poetry install|pdm (?:install|sync)|pipenv (?:install|sync))\b/,
    preset: 'pip',
    managers: ['pip', 'uv', 'poetry', 'pdm', 'pipenv'],
    plain:
      /^(?:(?:python3? -m )?pip3? install (?:--upgrade pip|-U pip|(?:-r \S+ ?)+|-e \.(?:\[[\w,-]+\])?|\.(?:\[[\w,-]+\])?)|python3? -m venv \S+|uv sync|uv venv|poetry install|pdm (?:install|sync)|pipenv (?:install|sync)(?: --dev)?)$/,
  },
  { words: /^cargo fetch\b/, preset: 'cargo', managers: ['cargo'], plain: /^cargo fetch$/ },
  { words: /^go mod download\b/, preset: 'go', managers: ['go'], plain: /^go mod download$/ },
  { words: /^(?:mvn|\.\/mvnw) .*dependency:/, preset: 'maven', managers: ['maven'], plain: /./ },
  { words: /^bundle install\b/, managers: ['bundler'], plain: /^bundle install$/ },
  { words: /^composer install\b/, managers: ['composer'], plain: /^composer install$/ },
  { words: /^mix deps\.get\b/, managers: ['mix'], plain: /^mix deps\.get$/ },
  { words: /^dotnet restore\b/, managers: ['nuget'], plain: /^dotnet restore$/ },
]

/** Commands that only prepare others, or only say something. */
const HOUSEKEEPING = /^(?:(?:cd|echo|printf|export|set|true)\b|:(?= |$))|--version$/
/** These discard output. */
const DISCARDS = /\d?>{1,2}\s{0,5}(?:\/dev\/null|&\d)/g
/** What gives such a command an effect: files, other commands, more lines. */
const EFFECT = /[<>`&\n]|\$\(|\(\)/
/** A script with these is run as a whole. */
const STRUCTURE =
  /(?:^|[\s;])(?:if|for|while|case|until|function|do|done|fi|esac)(?:$|[\s;])|<<|\(\)|[`{}]|\$\(/
/** Why a command is not run when the environment is built. */
const REFUSED: readonly (readonly [command: RegExp, why: string])[] = [
  [/^(?:curl|wget|git clone|git submodule)\b/, 'a build reaches only the registries of package managers'],
  [/^(?:docker|docker-compose|systemctl|service|dockerd|podman)\b/, 'a build has no daemons'],
]

export interface FormatSetup {
  readonly setups: readonly SetupPlan[]
  readonly notes: readonly string[]
}

/** The setups of manifests as the strongest file changes them, and the file's own step after them. */
export function formatSetup(
  { formats, tree }: Detected,
  findings: readonly Finding[],
  setups: readonly SetupPlan[],
): FormatSetup {
  const [format, ...others] = formats.filter(({ setup }) => setup.length > 0)
  if (!format) return { setups, notes: [] }
  const notes: string[] = others.flatMap(({ setup: [lost], file }) =>
    lost
      ? [
          `${placeOf(lost)}: the commands of ${file} that install are not used: ${whyBeaten(format.setup[0] ?? lost, lost, false)}`,
        ]
      : [],
  )
  const changes = new Map<SetupPlan, { covered: Rejected[]; own: string[] }>()
  const rest: string[] = []
  const presets = new Set<ClientPreset>(setups.flatMap((one) => one.presets))
  for (const command of format.setup) {
    const { directory: below = '' } = command
    const kept: string[] = []
    for (const line of linesOf(command.run)) {
      const { directory, text } = inDirectory(line, below)
      const parts = shellCommands(text).filter((part) => aptPackages(part) === undefined)
      if (parts.length === 0) continue
      const refused = STRUCTURE.test(text) ? undefined : refusalOf(text, parts)
      if (refused !== undefined) {
        notes.push(`${placeOf(command)}: \`${printable(text, 60)}\` is not run: ${refused}`)
        continue
      }
      const installers = parts.map((part) => INSTALLERS.find(({ words }) => words.test(part)))
      for (const one of installers) if (one?.preset) presets.add(one.preset)
      const managers = parts.map((part, at) =>
        isHousekeeping(part) ? undefined : setups.find((setup) => isFor(setup, directory, installers[at])),
      )
      const target = managers.find((one) => one !== undefined)
      const isWhole =
        !STRUCTURE.test(text) && parts.every((part, at) => isHousekeeping(part) || managers[at] === target)
      if (!target || !isWhole) {
        kept.push(withoutApt(line))
        continue
      }
      const change = changes.get(target) ?? { covered: [], own: [] }
      changes.set(target, change)
      const isPlain = parts.every((part, at) => isHousekeeping(part) || installers[at]?.plain.test(part))
      if (isPlain)
        change.covered.push({
          value: printable(text, 60),
          evidence: command.evidence,
          why: `it installs the same as ${target.manager}`,
        })
      else change.own.push(withoutApt(text))
    }
    if (kept.some((line) => !shellCommands(line).every((part) => isHousekeeping(part))))
      rest.push(below === '' ? kept.join('\n') : `cd ${shellWord(`./${below}`)}\n${kept.join('\n')}`)
  }
  const changed = setups.map((setup) => changedSetup(setup, changes.get(setup), format))
  return {
    setups: [
      ...changed,
      ...ownStep(format, rest, { presets: [...presets], files: tree.files, findings, notes }),
    ],
    notes,
  }
}

/** Presets of the package managers that the commands of these files use. */
export function formatPresets({ formats }: Pick<Detected, 'formats'>): ClientPreset[] {
  const commands = formats.flatMap(({ setup }) =>
    setup.flatMap(({ run }) => linesOf(run).flatMap(shellCommands)),
  )
  const found = commands.flatMap((part) => INSTALLERS.find(({ words }) => words.test(part))?.preset ?? [])
  const extra = formats.flatMap((format) =>
    format.extra.flatMap(({ manager }) => (manager === 'nix' ? [] : [manager])),
  )
  return [...new Set([...found, ...extra])]
}

/** Commands of the strongest file that runs some at every start. Those that need root are noted. */
export function formatStarts({ formats }: Pick<Detected, 'formats'>): {
  readonly starts: readonly CommandPlan[]
  readonly notes: readonly string[]
} {
  const [format, ...others] = formats.filter(({ start }) => start.length > 0)
  const notes = others.flatMap(({ file, start: [lost] }) => {
    const [chosen] = format?.start ?? []
    return lost && chosen
      ? [
          `${placeOf(lost)}: the commands of ${file} for every start are not used: ${whyBeaten(chosen, lost, false)}`,
        ]
      : []
  })
  const starts = (format?.start ?? []).flatMap((command): CommandPlan[] => {
    const why = refusalOf(command.run, shellCommands(command.run))
    if (why === undefined || STRUCTURE.test(command.run))
      return [
        {
          directory: '',
          ...command,
          run: inShell(command.run),
          script: command.run,
          rank: format?.rank ?? 'default',
          beat: [],
        },
      ]
    notes.push(`${placeOf(command)}: \`${printable(command.run, 60)}\` is not run: ${why}`)
    return []
  })
  return { starts, notes }
}

function isHousekeeping(command: string): boolean {
  return HOUSEKEEPING.test(command) && !EFFECT.test(command.replaceAll(DISCARDS, ''))
}

function placeOf({ evidence: { file, line } }: Pick<SetupCommand, 'evidence'>): string {
  return line === undefined ? file : `${file}:${line}`
}

/** A script with loops or conditions stays whole. `a && b` is two commands: the script ends at a failure. */
function linesOf(run: string): readonly string[] {
  if (STRUCTURE.test(run) && run.includes('\n')) return [run]
  return shellLines(run).flatMap(({ text }) =>
    STRUCTURE.test(text) || /[;|'"()]|^cd /.test(text) ? [text] : text.split('&&').map((part) => part.trim()),
  )
}

/** `cd web && npm ci` is `npm ci` in `web`. */
function inDirectory(line: string, below: string): { readonly directory: string; readonly text: string } {
  const [, written, text = line] = /^cd ([\w./-]{1,100}) && (.*)$/s.exec(line) ?? []
  const directory = written === undefined ? below : pathInProject(below, written)
  return directory === undefined ? { directory: below, text: line } : { directory, text }
}

function withoutApt(line: string): string {
  if (STRUCTURE.test(line) || /\|\||[;|'"()]/.test(line)) return line
  const parts = line.split('&&').map((part) => part.trim())
  return parts.filter((part) => !shellCommands(part).every((one) => aptPackages(one))).join(' && ')
}

function refusalOf(text: string, parts: readonly string[]): string | undefined {
  const known = parts.flatMap((part) => REFUSED.find(([command]) => command.test(part))?.[1] ?? [])[0]
  if (known !== undefined) return known
  const isOnlyApt = parts.every((part) => aptPackages(part) !== undefined)
  const needsRoot = text
    .split(/&&|\|\||;|\|/)
    .some((part) => /^\s*sudo\b/.test(part) && !/\bapt(?:-get)?\b/.test(part))
  return needsRoot && !isOnlyApt
    ? 'a project gets no root; name packages under [environment.packages]'
    : undefined
}

function isFor(setup: SetupPlan, directory: string, installer: Installer | undefined): boolean {
  return setup.directory === directory && (installer?.managers.includes(setup.manager) ?? false)
}

function changedSetup(
  setup: SetupPlan,
  change: { readonly covered: readonly Rejected[]; readonly own: readonly string[] } | undefined,
  { setup: commands }: FormatFile,
): SetupPlan {
  if (!change) return setup
  if (change.own.length === 0) return { ...setup, beat: change.covered }
  const [first] = commands
  const manifest = { value: printable(setup.run, 60), evidence: setup.evidence, why: '' }
  const isAfter = change.covered.length > 0
  // A venv is where the commands of the project look for packages.
  const before = isAfter ? setup.run : setup.manager === 'pip' ? VENV : ''
  return {
    ...setup,
    run: [before, change.own.length === 1 ? (change.own[0] ?? '') : commandSequence(change.own)]
      .filter((part) => part !== '')
      .join('\n'),
    evidence: first?.evidence ?? setup.evidence,
    beat: isAfter ? change.covered : [{ ...manifest, why: first ? whyBeaten(first, setup, false) : '' }],
  }
}

const VENV = '[ -x .venv/bin/python ] || python3 -m venv .venv'
/** More would make each build slow. */
const MOST_FILES = 3000

interface OwnStepParts {
  readonly presets: readonly ClientPreset[]
  readonly files: readonly string[]
  readonly findings: readonly Finding[]
  readonly notes: string[]
}

function ownStep(
  format: FormatFile,
  scripts: readonly string[],
  { presets, files, findings, notes }: OwnStepParts,
): SetupPlan[] {
  const [first] = format.setup
  if (!first || scripts.length === 0) return []
  if (files.length > MOST_FILES) {
    notes.push(
      `${placeOf(first)}: its other commands are not run: they need all files, and the project has more than ${MOST_FILES}; write [lifecycle] setup with inputs in agentpod.toml`,
    )
    return []
  }
  const run = scripts.map(inShell).join('\n')
  const hint = `this command comes from ${placeOf(first)}; [lifecycle] setup in agentpod.toml replaces it`
  return [
    {
      ...{ name: `prebuild/${format.label}`, directory: '', manager: format.file, evidence: first.evidence },
      run: `{\n${run}\n} || { code=$?; printf '%s\\n' ${shellWord(hint)} >&2; exit "$code"; }`,
      script: scripts.join('\n'),
      inputs: [...files],
      ...{ stubs: {}, presets, beat: [] },
      variables: Object.assign({}, ...findings.map(({ variables = {} }) => variables)) as Record<
        string,
        string
      >,
    },
  ]
}

/** In bash where there is one, as on the platforms that these files are for. */
function inShell(script: string): string {
  return `"$(command -v bash || command -v sh)" -e -c ${shellWord(script)}`
}
