/** The label that names a sandbox's project. */
import { showHidden } from '../../util/hidden-characters.ts'

const LONGEST_LABEL = 200

export function projectLabel(name: string): Record<string, string> {
  return { 'agentpod/project': showHidden(name).slice(0, LONGEST_LABEL) }
}
