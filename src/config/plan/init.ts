/** Writes agentpod.toml for a project that has none: the detected values, with their reasons as comments. */

import type { BaseDockerfile } from '../../bases/base-kind.ts'
import { ownLines } from '../../util/shell/shell-script.ts'
import { shellWord } from '../../util/shell/shell-word.ts'
import { type FoundPackage, VERBS, type Verb } from '../detect/finding.ts'
import type { FormatFile } from '../detect/formats/format-file.ts'
import type { Choice, Evidence } from '../evidence.ts'
import { evidenceText } from '../evidence-text.ts'
import { PROJECT_LANGUAGES, type ProjectLanguage } from '../project/environment-table.ts'
import { rankOfFile } from '../source-rank.ts'
import { printable } from '../toml/problem.ts'
import { mayMatch } from './languages/version.ts'
import type { LanguagePlan, Plan } from './plan.ts'
import type { ServicePlan } from './services/service-plan.ts'

const INTRO = `# What \`agentpod shell\`, \`run\`, \`test\` and \`dev\` work with. Everything has a default: what is
# left out is detected. \`agentpod config explain\` says what it comes to.
# All keys: docs/reference/agentpod-toml.md, or \`agentpod config schema\` for editors.
`

/** Limits of the file's schema; the rest is detected anyway. */
const MOST_PACKAGES = 256
const MOST_PORTS = 64

/** The file that `init --from` reads, and what of it has no place in agentpod.toml. */
export interface InitSource {
  readonly file: string
  readonly notes: readonly string[]
}

export function initText(name: string, plan: Plan | undefined, from?: InitSource): string {
  const lines = [INTRO, '[environment]', `name = ${text(nameOf(name))}`]
  if (!plan) return `${lines.join('\n')}\n`
  const { image, dockerfile } = plan.resolvedBase
  const base = dockerfile
    ? `dockerfile = ${dockerfileText(dockerfile)}`
    : image === undefined
      ? `base = ${text(plan.base.value)}`
      : `image = ${text(image)}`
  lines.push(chosen(plan.base, `${base}${why(plan.base.evidence)}`))
  const languages = plan.languages.filter(({ language, source }) => isKey(language) && source.kind !== 'own')
  if (languages.length > 0) {
    lines.push('', '[environment.languages]')
    for (const one of languages)
      lines.push(chosen(one.wish, `${one.language} = ${text(versionOf(one))}${why(one.wish.evidence)}`))
  }
  const packages = plan.packages
    .filter(({ isThere, isOptional }) => !isThere && !isOptional && image === undefined)
    .slice(0, MOST_PACKAGES)
  const lists: readonly (readonly [manager: string, list: readonly FoundPackage[]])[] = [
    ['apt', packages],
    ...EXTRA.map((manager) => [manager, plan.extraFrom.filter((one) => one.manager === manager)] as const),
  ]
  if (lists.some(([, list]) => list.length > 0)) lines.push('', '[environment.packages]')
  for (const [manager, list] of lists)
    if (list.length > 0)
      lines.push(`${manager} = [`, ...list.map((one) => `  ${text(one.name)},${why(one.evidence)}`), ']')
  const variables = plan.variables.filter(
    ({ evidence: { file }, value }) => isOfFormat(file) && isLine(value),
  )
  if (variables.length > 0) lines.push('', '[environment.variables]')
  for (const { name: one, value, evidence } of variables)
    lines.push(`${one} = ${text(value)}${why(evidence)}`)
  const services = plan.services.filter(({ known, command }) => known !== undefined || command)
  if (services.length > 0) lines.push('', '[services]')
  for (const one of services) lines.push(`${one.name} = ${serviceText(one)}${why(one.choice.evidence)}`)
  if (plan.ports.length > 0) {
    lines.push('', '[ports]')
    for (const { port, label, evidence } of plan.ports.slice(0, MOST_PORTS))
      lines.push(
        `${port} = ${label === undefined ? '{}' : `{ label = ${text(printable(label, 64))} }`}${why(evidence)}`,
      )
  }
  const commands = VERBS.filter((verb) => verb !== 'setup' && verb !== 'start').flatMap((verb) => {
    const found = plan.commands[verb]
    const [first] = found
    if (!first) return []
    // Commands in several directories are left to detection, which knows all of them.
    const value = commandText(verb, found)
    return value === undefined
      ? found.map(({ directory, run }) => `# ${verb}: ${oneLine(run)} in ${plain(directory) || 'the root'}`)
      : [`${verb} = ${value}${why(first.evidence)}`]
  })
  const carried = from && setupLines(plan, from.file)
  const setups =
    carried ??
    plan.setups.map(
      ({ run, directory }) =>
        `# setup: ${plain(firstLine(run))} in ${plain(directory) || 'the root'} (detected)`,
    )
  const starts = plan.starts.map(({ script, run }) => script ?? run)
  const start =
    starts.length > 0 && starts.every(isCommand)
      ? [`start = [${starts.map(text).join(', ')}]${why(plan.starts[0]?.evidence ?? NOWHERE)}`]
      : []
  if (commands.length + setups.length + start.length > 0)
    lines.push('', '[lifecycle]', ...setups, ...start, ...commands)
  if (plan.presets.length > 0) {
    lines.push(
      '',
      '[network]',
      '# Package managers that the project uses may be reached without being listed here.',
    )
    lines.push(
      `# presets = [${plan.presets.map(({ name: one }) => text(one)).join(', ')}]`,
      '# allow = ["api.example.com"]',
    )
  }
  if (from && from.notes.length > 0)
    lines.push(
      '',
      `# Not carried over from ${plain(from.file)}:`,
      ...from.notes.map((note) => `# - ${printable(note, 300)}`),
    )
  return `${lines.join('\n')}\n`
}

/** Parts of the file that a plan uses, and for which agentpod.toml has no key. */
export function partsWithoutKey(
  plan: Plan | undefined,
  formats: readonly Pick<FormatFile, 'file' | 'path'>[],
): string[] {
  const starts = (plan?.commands.start ?? []).filter(({ evidence }) => isOfFormat(evidence.file))
  return [
    ...starts.map(
      ({ run, evidence }) =>
        `${evidenceText(evidence)}: ${oneLine(run)} starts the program as in production; [lifecycle] start would run it at every start of a sandbox`,
    ),
    ...formats.flatMap(({ file, path }) =>
      path.map((one) => `${file} puts ${one.replace('$WORKSPACE', '.')} on the PATH`),
    ),
  ]
}

const EXTRA = ['npm', 'pip', 'cargo', 'go', 'nix'] as const
const NOWHERE: Evidence = { file: '', said: 'detected' }

/** Whether the value comes from a file of another platform, which the new file takes the place of. */
function isOfFormat(file: string): boolean {
  return ['devcontainer', 'compose file', 'agent file', 'platform file', 'version file'].includes(
    rankOfFile(file),
  )
}

/** Undefined if detection finds the commands without another platform's file, or the schema refuses them. */
function commandText(verb: Verb, found: Plan['commands'][Verb]): string | undefined {
  const [first] = found
  const runs = found.map(({ run }) => run)
  if (!first || !runs.every(isCommand) || found.some(({ directory }) => directory !== '')) return undefined
  if (found.length === 1) return text(first.run)
  if (!isOfFormat(first.evidence.file) || found.length > MOST_COMMANDS) return undefined
  if (verb !== 'dev') return `[${runs.map(text).join(', ')}]`
  // A list runs in order, and a server does not end.
  const together = [...runs.map((run) => `(\n${run}\n) &`), 'wait'].join('\n')
  return isCommand(together) ? text(together) : undefined
}

function isLine(value: string): boolean {
  return value.length <= 4096 && value.isWellFormed() && !/\p{Cc}/u.test(value)
}

function dockerfileText({ file, context, target, args }: BaseDockerfile): string {
  const values = Object.entries(args).filter(([, value]) => isLine(value))
  if (context === '' && target === undefined && values.length === 0) return text(file)
  const parts = [
    `file = ${text(file)}`,
    ...(context === '' ? [] : [`context = ${text(context)}`]),
    ...(target === undefined ? [] : [`target = ${text(target)}`]),
    ...(values.length === 0
      ? []
      : [`build_args = { ${values.map(([name, value]) => `${text(name)} = ${text(value)}`).join(', ')} }`]),
  ]
  return `{ ${parts.join(', ')} }`
}

function serviceText({ has, version, command }: ServicePlan): string {
  if (!command) return has && version !== undefined ? `{ version = ${text(majorOf(has))} }` : '{}'
  const { ready } = command
  const check =
    ready?.command !== undefined
      ? `, ready = { command = ${text(ready.command)}, timeout = "60s" }`
      : ready?.port !== undefined
        ? `, ready = { port = ${ready.port}, timeout = "60s" }`
        : ''
  return `{ run = ${text(command.run)}${check} }`
}

/** The schema's limits. */
const MOST_SETUPS = 32
const MOST_COMMANDS = 32
const MOST_INPUTS = 256

/**
 * All setup steps as one, if a file of another platform changes them. Undefined if detection finds the same
 * steps without that file, or if the schema cannot hold them.
 */
function setupLines({ setups }: Plan, file: string): string[] | undefined {
  if (!setups.some(({ evidence }) => isOfFormat(evidence.file))) return undefined
  const commands = setups.map(({ directory, script, run }) => {
    const own = script ?? run
    return directory === '' ? own : `(cd ${shellWord(directory)} && ${own})`
  })
  const all = new Set(setups.flatMap((one) => one.inputs))
  const inputs = [...all].filter((path) => path !== file).sort()
  const isSafe = inputs.every((path) => isLine(path) && !/[*?[\]]/.test(path))
  if (commands.length > MOST_SETUPS || inputs.length > MOST_INPUTS || !commands.every(isCommand) || !isSafe)
    return undefined
  return [`setup = { run = [${commands.map(text).join(', ')}], inputs = [${inputs.map(text).join(', ')}] }`]
}

/** The file is shared with others, so choices that only depend on this machine become comments. */
function chosen({ rank }: Pick<Choice, 'rank'>, line: string): string {
  return rank === 'default' ? `# ${line}` : line
}

function isKey(language: string): boolean {
  return PROJECT_LANGUAGES.includes(language as ProjectLanguage)
}

const VERSION = /^[A-Za-z0-9<>=~^!*][A-Za-z0-9 .,_+*^~<>=!|/-]{0,63}$/

/**
 * The requested version if it is what was used and the schema accepts it; else the version line that was
 * used.
 */
function versionOf({ language, wish, asked, source: { version } }: LanguagePlan): string {
  if (language === 'c') return 'latest'
  const isMeant = wish.rank !== 'default' && VERSION.test(asked) && mayMatch(language, version, asked)
  return isMeant ? asked : majorOf(version)
}

/** The directory's name as the schema accepts it, or `project`. */
function nameOf(directory: string): string {
  const name = directory
    .toLowerCase()
    .replaceAll(/[^a-z0-9._-]+/g, '-')
    .slice(0, 64)
    .replace(/^[._-]+/, '')
    .replace(/[._-]+$/, '')
  return name === '' ? 'project' : name
}

function majorOf(version: string): string {
  const [major = version, minor] = version.split('.')
  return Number(major) < 10 && minor !== undefined ? `${major}.${minor}` : major
}

function why(evidence: Evidence): string {
  return `  # ${evidenceText(evidence)}`
}

function firstLine(run: string): string {
  return ownLines(run)[0] ?? run
}

function oneLine(run: string): string {
  return plain(run.trim().replaceAll(/\s*\n\s*/g, '; '))
}

/** SECURITY: CF-02. Text of a project in a comment must stay on one line. */
function plain(words: string): string {
  return printable(words, 100)
}

const LONGEST_COMMAND = 8192

/** Whether the schema accepts the command unchanged. */
function isCommand(run: string): boolean {
  return run.length <= LONGEST_COMMAND && /\S/.test(run) && run.isWellFormed() && !/[^\t\n\P{Cc}]/u.test(run)
}

/** A TOML string. TOML understands all JSON escapes that can occur here. */
function text(value: string): string {
  return JSON.stringify(value.toWellFormed().replaceAll(/[^\t\n\P{Cc}]/gu, ' '))
}
