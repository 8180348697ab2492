/** Where the directories that a project never keeps are in a sandbox. */
import type { Evidence } from '../../config/evidence.ts'
import { evidenceText } from '../../config/evidence-text.ts'
import type { EphemeralWish } from '../../config/project/data.ts'
import { homeOf } from '../../core/environment.ts'
import { invalid } from '../../core/error.ts'
import { checkEphemeral, type EphemeralDirectory } from '../../core/volume/ephemeral.ts'
import { pathsOverlap } from '../../core/volume/mount-path.ts'

export interface SaidEphemeral extends EphemeralWish {
  readonly evidence: Evidence
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
