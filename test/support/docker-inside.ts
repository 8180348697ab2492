/** Why a Docker engine cannot run inside a sandbox here; false if it can. */
import { existsSync } from 'node:fs'
import { NO_GVISOR } from './gvisor.ts'

const PROGRAMS = ['/usr/sbin/dockerd', '/usr/sbin/iptables-legacy', '/bin/busybox']
const MISSING = PROGRAMS.filter((path) => !existsSync(path))

export const NO_ENGINE_INSIDE: string | false =
  NO_GVISOR ?? (MISSING.length > 0 && `needs ${MISSING.join(', ')}`)
