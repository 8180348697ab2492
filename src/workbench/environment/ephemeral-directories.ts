/** Directories that a project never keeps: what its files ask for. */
import { PROJECT_FILE, readProjectFile } from '../../config/config-files.ts'
import { evidenceText } from '../../config/evidence-text.ts'
import type { ExplainedChoice } from '../../config/plan/explained-choice.ts'
import type { SaidEphemeral } from './place-ephemeral.ts'

/** Those of agentpod.toml, and then those of other files that are at other paths. */
export function ephemeralWishes(directory: string, more: readonly SaidEphemeral[] = []): SaidEphemeral[] {
  const file = readProjectFile(directory)
  const own = (file?.data.ephemeral ?? []).map((one, n) => ({
    ...one,
    evidence: { file: PROJECT_FILE, line: file?.at(['ephemeral', 'paths', n])?.line, said: one.path },
  }))
  return [...own, ...more.filter(({ path }) => !own.some((one) => one.path === path))]
}

/** What `agentpod config explain` says about them. */
export function explainEphemeral(wishes: readonly SaidEphemeral[]): ExplainedChoice[] {
  return wishes.map(({ path, sizeMib, evidence }) => ({
    key: `ephemeral.${path}`,
    value: `in memory, never kept${sizeMib === undefined ? '' : `, at most ${sizeMib} MiB`}`,
    rank: evidence.file === PROJECT_FILE ? 'agentpod.toml' : 'devcontainer',
    from: evidence,
    beat: [],
  }))
}

/** Says which files of the project are not in its sandboxes. */
export function ephemeralNotes(wishes: readonly SaidEphemeral[], files: readonly string[]): string[] {
  return wishes.flatMap(({ path, evidence }) => {
    const count = files.filter((file) => file.startsWith(`${path}/`)).length
    if (count === 0) return []
    const what =
      count === 1 ? 'the file of the project in it is' : `the ${count} files of the project in it are`
    return [`${evidenceText(evidence)} is never kept: ${what} not in the sandbox`]
  })
}
