/** agentpod.toml for a project that has none: what detection found, with the reasons beside it. */

import { ownLines } from '../../util/shell-script.ts'
import { VERBS } from '../detect/finding.ts'
import type { Choice, Evidence } from '../evidence.ts'
import { printable } from '../problem.ts'
import { PROJECT_LANGUAGES, type ProjectLanguage } from '../project/environment-table.ts'
import { place } from './explain.ts'
import type { LanguagePlan, Plan } from './plan.ts'
import { mayBe } from './version.ts'

const INTRO = `# What \`agentpod shell\`, \`run\`, \`test\` and \`dev\` work with. Everything has a default: what is
# left out is detected. \`agentpod config explain\` says what it comes to.
# All keys: docs/reference/agentpod-toml.md, or \`agentpod config schema\` for editors.
`

/** More the file's grammar does not take; what is left out is detected all the same. */
const MOST_PACKAGES = 256
const MOST_PORTS = 64

export function initText(name: string, plan: Plan | undefined): string {
  const lines = [INTRO, '[environment]', `name = ${text(nameOf(name))}`]
  if (!plan) return `${lines.join('\n')}\n`
  const { image } = plan.ground
  const base = image === undefined ? `base = ${text(plan.base.value)}` : `image = ${text(image)}`
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
    // What runs in several directories is left to detection, which knows them all.
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

/** The file is for everybody: what only this machine was the reason for is said and not asked for. */
function chosen({ rank }: Pick<Choice, 'rank'>, line: string): string {
  return rank === 'default' ? `# ${line}` : line
}

function isKey(language: string): boolean {
  return PROJECT_LANGUAGES.includes(language as ProjectLanguage)
}

const VERSION = /^[A-Za-z0-9<>=~^!*][A-Za-z0-9 .,_+*^~<>=!|/-]{0,63}$/

/** What was asked for, where it is what was taken and the file's grammar has words for it; else the line of what was taken. */
function versionOf({ language, wish, asked, source: { version } }: LanguagePlan): string {
  if (language === 'c') return 'latest'
  const isMeant = wish.rank !== 'default' && VERSION.test(asked) && mayBe(language, version, asked)
  return isMeant ? asked : majorOf(version)
}

/** As the file's grammar has names, or one that everybody has. */
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
  return `  # ${place(evidence)}`
}

function firstLine(run: string): string {
  return ownLines(run)[0] ?? run
}

/** SECURITY: CF-02. Words of a project in a comment, which ends with its line. */
function plain(words: string): string {
  return printable(words, 100)
}

const LONGEST_COMMAND = 8192

/** Whether the file's grammar takes it as it is. */
function isCommand(run: string): boolean {
  return run.length <= LONGEST_COMMAND && /\S/.test(run) && run.isWellFormed() && !/[^\t\n\P{Cc}]/u.test(run)
}

/** A string of TOML. What JSON escapes, TOML reads alike; of what it does not, nothing is here. */
function text(value: string): string {
  return JSON.stringify(value.toWellFormed().replaceAll(/[^\t\n\P{Cc}]/gu, ' '))
}
