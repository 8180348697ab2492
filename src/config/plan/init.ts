/** Writes agentpod.toml for a project that has none: the detected values, with their reasons as comments. */

import { ownLines } from '../../util/shell/shell-script.ts'
import { VERBS } from '../detect/finding.ts'
import type { Choice, Evidence } from '../evidence.ts'
import { PROJECT_LANGUAGES, type ProjectLanguage } from '../project/environment-table.ts'
import { printable } from '../toml/problem.ts'
import { evidenceText } from './explain.ts'
import { mayMatch } from './languages/version.ts'
import type { LanguagePlan, Plan } from './plan.ts'

const INTRO = `# What \`agentpod shell\`, \`run\`, \`test\` and \`dev\` work with. Everything has a default: what is
# left out is detected. \`agentpod config explain\` says what it comes to.
# All keys: docs/reference/agentpod-toml.md, or \`agentpod config schema\` for editors.
`

/** Limits of the file's schema; the rest is detected anyway. */
const MOST_PACKAGES = 256
const MOST_PORTS = 64

export function initText(name: string, plan: Plan | undefined): string {
  const lines = [INTRO, '[environment]', `name = ${text(nameOf(name))}`]
  if (!plan) return `${lines.join('\n')}\n`
  const { image, dockerfile } = plan.resolvedBase
  const base = dockerfile
    ? `dockerfile = ${text(dockerfile.file)}`
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
  if (packages.length > 0) {
    lines.push('', '[environment.packages]', 'apt = [')
    for (const { name: one, evidence } of packages) lines.push(`  ${text(one)},${why(evidence)}`)
    lines.push(']')
  }
  const services = plan.services.filter(({ known }) => known !== undefined)
  if (services.length > 0) {
    lines.push('', '[services]')
    for (const { name: one, has, version, choice } of services)
      lines.push(
        `${one} = ${has && version !== undefined ? `{ version = ${text(majorOf(has))} }` : '{}'}${why(choice.evidence)}`,
      )
  }
  if (plan.ports.length > 0) {
    lines.push('', '[ports]')
    for (const { port, evidence } of plan.ports.slice(0, MOST_PORTS))
      lines.push(`${port} = {}${why(evidence)}`)
  }
  const commands = VERBS.filter((verb) => verb !== 'setup' && verb !== 'start').flatMap((verb) => {
    const found = plan.commands[verb]
    const [first] = found
    if (!first) return []
    // Commands in several directories are left to detection, which knows all of them.
    const isSimple = found.length === 1 && first.directory === '' && isCommand(first.run)
    return isSimple
      ? [`${verb} = ${text(first.run)}${why(first.evidence)}`]
      : found.map(({ directory, run }) => `# ${verb}: ${plain(run)} in ${plain(directory) || 'the root'}`)
  })
  const setups = plan.setups.map(
    ({ run, directory }) =>
      `# setup: ${plain(firstLine(run))} in ${plain(directory) || 'the root'} (detected)`,
  )
  if (commands.length + setups.length > 0) lines.push('', '[lifecycle]', ...setups, ...commands)
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
  return `${lines.join('\n')}\n`
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
