/** agentpod.toml for a project that has none: what detection found, with the reasons beside it. */

import { VERBS } from '../detect/finding.ts'
import type { Evidence } from '../evidence.ts'
import { PROJECT_LANGUAGES, type ProjectLanguage } from '../project/environment-table.ts'
import { place } from './explain.ts'
import type { Plan } from './plan.ts'

const INTRO = `# What \`agentpod shell\`, \`run\`, \`test\` and \`dev\` work with. Everything has a default: what is
# left out is detected. \`agentpod config explain\` says what it comes to.
# All keys: docs/reference/agentpod-toml.md, or \`agentpod config schema\` for editors.
`

export function initText(name: string, plan: Plan | undefined): string {
  const lines = [INTRO, '[environment]', `name = ${text(plain(name))}`]
  if (!plan) return `${lines.join('\n')}\n`
  lines.push(`base = ${text(plan.base.value)}${why(plan.base.evidence)}`)
  const languages = plan.languages.filter(({ language }) => isKey(language))
  if (languages.length > 0) {
    lines.push('', '[environment.languages]')
    for (const { language, wish, source } of languages) {
      const value =
        language === 'c'
          ? 'latest'
          : wish.rank === 'default'
            ? majorOf(source.version)
            : versionOf(wish.value)
      lines.push(`${language} = ${text(value)}${why(wish.evidence)}`)
    }
  }
  const packages = plan.packages.filter(({ isThere }) => !isThere)
  if (packages.length > 0) {
    lines.push('', '[environment.packages]', 'apt = [')
    for (const { name: one, evidence } of packages) lines.push(`  ${text(one)},${why(evidence)}`)
    lines.push(']')
  }
  if (plan.services.length > 0) {
    lines.push('', '[services]')
    for (const { name: one, has, choice } of plan.services)
      lines.push(`${one} = ${has ? `{ version = ${text(majorOf(has))} }` : '{}'}${why(choice.evidence)}`)
  }
  if (plan.ports.length > 0) {
    lines.push('', '[ports]')
    for (const { port, evidence } of plan.ports) lines.push(`${port} = {}${why(evidence)}`)
  }
  const commands = VERBS.filter((verb) => verb !== 'setup' && verb !== 'start').flatMap((verb) => {
    const found = plan.commands[verb]
    const [first] = found
    if (!first) return []
    // What runs in several directories is left to detection, which knows them all.
    const isSimple = found.length === 1 && first.directory === ''
    return isSimple
      ? [`${verb} = ${text(first.run)}${why(first.evidence)}`]
      : found.map(({ directory, run }) => `# ${verb}: ${plain(run)} in ${directory || 'the root'}`)
  })
  const setups = plan.setups.map(
    ({ run, directory }) => `# setup: ${plain(firstLine(run))} in ${directory || 'the root'} (detected)`,
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

function isKey(language: string): boolean {
  return PROJECT_LANGUAGES.includes(language as ProjectLanguage)
}

/** A range that the grammar of the file has no words for becomes its plain beginning. */
function versionOf(wish: string): string {
  return /^[A-Za-z0-9<>=~^!*][A-Za-z0-9 .,_+*^~<>=!|/-]{0,63}$/.test(wish) ? wish : 'latest'
}

function majorOf(version: string): string {
  const [major = version, minor] = version.split('.')
  return Number(major) < 10 && minor !== undefined ? `${major}.${minor}` : major
}

function why(evidence: Evidence): string {
  return `  # ${place(evidence)}`
}

function firstLine(run: string): string {
  return run.split('\n').find((line) => line.trim() !== '' && !line.startsWith('set ')) ?? run
}

function plain(words: string): string {
  return words.replaceAll(/[^ -~]/g, '?').slice(0, 100)
}

function text(value: string): string {
  return JSON.stringify(value.replaceAll(/[^\u0020-\u{10ffff}]/gu, ' '))
}
