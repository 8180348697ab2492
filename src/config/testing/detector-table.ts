/** Tables of projects and what a detector finds in them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Detector, Finding, Verb } from '../detect/finding.ts'
import type { Candidate, Evidence } from '../evidence.ts'
import { memoryTree } from './memory-tree.ts'

/** A finding in short form. */
export interface Summary extends Partial<Readonly<Record<Verb, string | undefined>>> {
  readonly language: string
  readonly directory: string
  /** `go.mod:1` */
  readonly seen: string
  /** `1.24 manifest go.mod:3` */
  readonly versions: readonly string[]
  readonly manager: string | undefined
  readonly beaten: readonly string[]
  /** `maven`, `bundler 2.5.1` */
  readonly tools: readonly string[]
  readonly lockfile: string | undefined
  readonly inputs: readonly string[]
  readonly stubs: Readonly<Record<string, string>> | undefined
  readonly packages: readonly string[]
  readonly generated: readonly string[]
  readonly presets: readonly string[]
  readonly ports: readonly number[]
  readonly members: readonly string[] | undefined
  readonly variables: Readonly<Record<string, string>> | undefined
}

export interface Expected extends Partial<Summary> {
  /** Each must match one of the notes. */
  readonly notes?: readonly RegExp[]
}

export interface Row {
  readonly name: string
  readonly files: Readonly<Record<string, string>>
  /** One for each finding, in order; fields that are left out are not checked. */
  readonly finds: readonly Expected[]
}

export function evidencePlace({ file, line }: Evidence): string {
  return line === undefined ? file : `${file}:${line}`
}

export function versionsOf(candidates: readonly Candidate[]): readonly string[] {
  return candidates.map(({ value, rank, evidence }) => `${value} ${rank} ${evidencePlace(evidence)}`)
}

export function summaryOf(finding: Finding): Summary {
  const { commands, manager } = finding
  return {
    language: finding.language,
    directory: finding.directory,
    seen: evidencePlace(finding.evidence),
    versions: versionsOf(finding.versions),
    manager: manager?.name,
    beaten: manager?.beat.map(({ name }) => name) ?? [],
    tools: finding.tools.map(({ name, version }) => (version === undefined ? name : `${name} ${version}`)),
    lockfile: finding.lockfile,
    inputs: finding.inputs,
    stubs: finding.stubs,
    packages: finding.packages.map(({ name }) => name),
    generated: finding.generated,
    presets: finding.presets,
    ports: finding.ports?.map(({ port }) => port) ?? [],
    members: finding.members,
    variables: finding.variables,
    setup: commands.setup?.run,
    dev: commands.dev?.run,
    test: commands.test?.run,
    lint: commands.lint?.run,
    build: commands.build?.run,
    start: commands.start?.run,
  }
}

export function testDetector(detector: Detector, rows: readonly Row[]): void {
  for (const { name, files, finds } of rows)
    test(name, () => {
      const found = detector(memoryTree(files))
      assert.deepEqual(
        found.map(({ directory }) => directory),
        finds.map(({ directory = '' }) => directory),
        'the directories of the findings',
      )
      for (const [index, { notes = [], ...wanted }] of finds.entries()) {
        const finding = found[index]
        assert.ok(finding)
        const summary = summaryOf(finding)
        const keys = Object.keys(wanted) as (keyof Summary)[]
        assert.deepEqual(Object.fromEntries(keys.map((key) => [key, summary[key]])), wanted)
        for (const note of notes) assert.match((finding.notes ?? []).join('\n'), note)
      }
    })
}
