/**
 * Languages that use whatever toolchain this machine or Debian has, without a choice of versions. They count
 * only if no other language is found.
 */

import { directoryOf, type FileTree, joinPath, nameOf } from '../../file-tree.ts'
import type { ClientPreset } from '../../presets/catalog.ts'
import type { Detector, Finding, FoundCommand, Verb } from '../finding.ts'
import { evidenceAt } from '../project-files/find-lines.ts'
import { isIgnored } from '../project-files/ignored-directories.ts'
import { readTextFile } from '../project-files/parsed-file.ts'
import { type MarkerFile, SIMPLE_LANGUAGES, type SimpleLanguage } from './simple-language-table.ts'

interface Seen {
  readonly rule: SimpleLanguage
  readonly file: string
}

/** Each language once: the directory nearest to the root, by its preferred file. */
function seenIn(tree: FileTree): readonly Seen[] {
  const found: Seen[] = []
  for (const rule of SIMPLE_LANGUAGES) {
    const file = found.some((one) => one.rule.name === rule.name) ? undefined : fileFor(tree, rule)
    if (file !== undefined) found.push({ rule, file })
  }
  return found
}

function fileFor(tree: FileTree, { files, proof }: SimpleLanguage): string | undefined {
  for (const name of files) {
    const paths = name.startsWith('*') ? tree.ending(name.slice(1)) : tree.named(name)
    const path = paths.find(
      (one) => !isIgnored(directoryOf(one)) && (proof?.test(readTextFile(tree, one) ?? '') ?? true),
    )
    if (path !== undefined) return path
  }
  return undefined
}

export const detectSimpleLanguages: Detector = (tree) =>
  seenIn(tree).map(({ rule, file }) => findingOf(tree, rule, file))

function findingOf(tree: FileTree, rule: SimpleLanguage, file: string): Finding {
  const evidence = evidenceAt(file, undefined, nameOf(file))
  const directory = directoryOf(file)
  const text = readTextFile(tree, file) ?? ''
  const made: MarkerFile = { name: nameOf(file), text, has: (path) => tree.has(joinPath(directory, path)) }
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
    inputs: (rule.inputs ?? []).map((name) => joinPath(directory, name)).filter((path) => tree.has(path)),
    commands,
    packages: [],
    generated: commands.setup ? (rule.generated ?? []).map((name) => joinPath(directory, name)) : [],
    presets,
    notes,
  }
}

/** If other languages were found, these are only mentioned in notes: the project may not really use them. */
export function unsupportedLanguageNotes(tree: FileTree, hasFindings: boolean): readonly string[] {
  return seenIn(tree).flatMap(({ rule: { name, tools }, file }) => {
    if (!hasFindings) return []
    const what = tools.join(' and ')
    return [
      `${file} suggests ${name}, which is not set up because other languages were found; if you need it, install ${what} with [environment.packages] or [lifecycle] setup in agentpod.toml`,
    ]
  })
}
