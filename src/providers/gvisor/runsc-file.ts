/** Where gVisor's program is. */
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'

/** The release that `agentpod provider setup gvisor` installs. */
export const RUNSC_RELEASE = '20260905'

/**
 * `AGENTPOD_RUNSC`, or the place to which `agentpod provider setup gvisor` installs it: outside of the state
 * directory, because all state directories of a user can use one program.
 */
export function runscFile(env: Readonly<Record<string, string | undefined>>): string {
  const named = env['AGENTPOD_RUNSC']
  if (named !== undefined && isAbsolute(named)) return named
  const cache = env['XDG_CACHE_HOME']
  const base = cache !== undefined && isAbsolute(cache) ? cache : join(homedir(), '.cache')
  return join(base, 'agentpod', `runsc-${RUNSC_RELEASE}`, 'runsc')
}
