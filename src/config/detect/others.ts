/** Languages whose toolchain is what this machine or Debian has: they have no choice of versions, and a project is theirs where nothing else is found. */
import type { ClientPreset } from '../presets/catalog.ts'
import { directoryOf, type FileTree, nameOf, within } from '../tree.ts'
import { isAside } from './aside.ts'
import type { Detector, Finding, FoundCommand, Verb } from './finding.ts'
import { type Made, OTHER_LANGUAGES, type OtherLanguage } from './other-languages.ts'
import { readPlain } from './reading.ts'
import { evidenceAt } from './seek.ts'

interface Seen {
  readonly rule: OtherLanguage
  readonly file: string
}

/** Each language once, where it is nearest to the root, by the best of its files. */
function seenIn(tree: FileTree): readonly Seen[] {
  const found: Seen[] = []
  for (const rule of OTHER_LANGUAGES) {
    const file = found.some((one) => one.rule.name === rule.name) ? undefined : fileFor(tree, rule)
    if (file !== undefined) found.push({ rule, file })
  }
  return found
}

function fileFor(tree: FileTree, { files, proof }: OtherLanguage): string | undefined {
  for (const name of files) {
    const paths = name.startsWith('*') ? tree.ending(name.slice(1)) : tree.named(name)
    const path = paths.find(
      (one) => !isAside(directoryOf(one)) && (proof?.test(readPlain(tree, one) ?? '') ?? true),
    )
    if (path !== undefined) return path
  }
  return undefined
}

export const detectOthers: Detector = (tree) =>
  seenIn(tree)
    .filter(({ rule }) => rule.tools.length > 0)
    .map(({ rule, file }) => findingOf(tree, rule, file))

function findingOf(tree: FileTree, rule: OtherLanguage, file: string): Finding {
  const evidence = evidenceAt(file, undefined, nameOf(file))
  const directory = directoryOf(file)
  const text = readPlain(tree, file) ?? ''
  const made: Made = { name: nameOf(file), text, has: (path) => tree.has(within(directory, path)) }
  const commands: Partial<Record<Verb, FoundCommand>> = {}
  for (const [verb, run] of Object.entries(rule.commands(made)) as [Verb, string | undefined][])
    if (run !== undefined) commands[verb] = { run, evidence }
  const presets: readonly ClientPreset[] = rule.preset && commands.setup ? [rule.preset] : []
  const notes = commands.setup && rule.hosts ? [`packages come from ${rule.hosts}: allow those hosts`] : []
  return {
    language: 'other',
    label: rule.name,
    directory,
    evidence,
    versions: [],
    manager: { name: rule.tools.at(-1) ?? rule.name, evidence, beat: [] },
    tools: rule.tools.map((name) => ({ name, evidence })),
    inputs: (rule.inputs ?? []).map((name) => within(directory, name)).filter((path) => tree.has(path)),
    commands,
    packages: [],
    generated: commands.setup ? (rule.generated ?? []).map((name) => within(directory, name)) : [],
    presets,
    notes,
  }
}

/** Beside other languages they are only told of: nobody knows whether the project is really written in them. */
export function otherNotes(tree: FileTree, hasFindings: boolean): readonly string[] {
  return seenIn(tree).flatMap(({ rule: { name, tools, note }, file }) => {
    if (note !== undefined) return [`${file} ${note}`]
    if (!hasFindings) return []
    const what = tools.join(' and ')
    return [
      `${file} is a sign of ${name}, which is not set up beside the languages above; if it is needed, install ${what} with [environment.packages] or [lifecycle] setup in agentpod.toml`,
    ]
  })
}
