/** Directories that a project never keeps: what its files ask for, and where they are in a sandbox. */
import { PROJECT_FILE, readProjectFile } from '../../config/config-files.ts'
import type { Evidence } from '../../config/evidence.ts'
import { evidenceText } from '../../config/plan/explain.ts'
import type { ExplainedChoice } from '../../config/plan/explained-choice.ts'
import type { EphemeralWish } from '../../config/project/data.ts'
import { homeOf } from '../../core/environment.ts'
import { invalid } from '../../core/error.ts'
import { checkEphemeral, type EphemeralDirectory } from '../../core/volume/ephemeral.ts'
import { pathsOverlap } from '../../core/volume/mount-path.ts'

export interface SaidEphemeral extends EphemeralWish {
  readonly evidence: Evidence
}

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

export interface EphemeralPlace {
  readonly user: string
  /** The directory of the project's copy inside. */
  readonly workspace: string
  /** Directories of the project that the environment provides. */
  readonly generated: readonly string[]
}

export interface PlacedEphemeral {
  readonly directories: readonly EphemeralDirectory[]
  /** Those in the project, relative to it. They are no part of its copies and results. */
  readonly aside: readonly string[]
}

/** Where they are inside. Refuses those that would hide the project or what the environment installs. */
export function placeEphemeral(
  wishes: readonly SaidEphemeral[],
  { user, workspace, generated }: EphemeralPlace,
): PlacedEphemeral {
  const placed = wishes.map(({ path, sizeMib, evidence }) => {
    const at = path.startsWith('/')
      ? path
      : path.startsWith('~/')
        ? homeOf(user) + path.slice(1)
        : `${workspace}/${path}`
    if (`${workspace}/`.startsWith(`${at}/`))
      throw refused(evidence, `${at} would hide the copy of the project in ${workspace}`)
    const installed = generated.find((one) => pathsOverlap(`${workspace}/${one}`, at))
    if (installed !== undefined)
      throw refused(evidence, `${at} would hide what the environment installs in ${installed}`)
    return { path: at, ...(sizeMib !== undefined && { sizeMib }) }
  })
  checkEphemeral(placed)
  const below = `${workspace}/`
  return {
    directories: placed,
    aside: placed.flatMap(({ path }) => (path.startsWith(below) ? [path.slice(below.length)] : [])),
  }
}

function refused(evidence: Evidence, message: string): Error {
  return invalid(
    'ephemeral.path',
    `${evidenceText(evidence)}: the ephemeral directory ${message}`,
    'choose a directory beside it',
  )
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
