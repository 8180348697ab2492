/** Which limits the daemon can hold a container to, and what it has refused to set. */
import type { CallOptions } from '../../core/call.ts'
import { AgentPodError } from '../../core/error.ts'
import type { Limited, LimitLevel, LimitLevels } from '../../core/resources.ts'
import { INFO, type Info } from './answers.ts'
import { type Daemon, parseAnswer } from './daemon.ts'

const ENFORCED: LimitLevel = { level: 'enforced' }

export class DaemonLimits {
  readonly #daemon: Daemon
  #info: Promise<Info> | undefined
  /** The least number of open files that the daemon was not allowed to set. */
  #filesRefused = Number.POSITIVE_INFINITY
  #diskRefused = false

  constructor(daemon: Daemon) {
    this.#daemon = daemon
  }

  /** What the daemon says of itself; asked once. */
  info(o: CallOptions): Promise<Info> {
    if (this.#info) return this.#info
    const asked = this.#daemon
      .json({ method: 'GET', path: '/info' }, o)
      .then((answer) => parseAnswer(INFO, answer))
    this.#info = asked
    asked.catch(() => {
      if (this.#info === asked) this.#info = undefined
    })
    return asked
  }

  /** Has the daemon asked anew: it may be another one by now, or none. */
  forget(): void {
    this.#info = undefined
  }

  /** The number of files to set; undefined where the daemon has refused as many. */
  files(wanted: number): number | undefined {
    return wanted < this.#filesRefused ? wanted : undefined
  }

  /** A daemon without CAP_SYS_RESOURCE gives no more open files than it has itself. */
  refuseFiles(wanted: number): void {
    this.#filesRefused = Math.min(this.#filesRefused, wanted)
  }

  refuseDisk(): void {
    this.#diskRefused = true
  }

  limitsDisk(info: Info): boolean {
    return !this.#diskRefused && mayLimitDisk(info)
  }

  levels(info: Info, files: number): LimitLevels {
    const byKernel = (isThere: boolean, what: string): LimitLevel =>
      isThere ? ENFORCED : { level: 'none', reason: `the Docker daemon’s kernel does not limit ${what}` }
    return {
      memory: byKernel(info.MemoryLimit, 'memory'),
      swap: byKernel(info.SwapLimit, 'swap'),
      cpus: byKernel(info.CpuCfsQuota || info.CPUCfsQuota === true, 'processors'),
      pids: byKernel(info.PidsLimit, 'processes'),
      files:
        this.files(files) === undefined
          ? {
              level: 'none',
              reason: `the Docker daemon may not set ${files} open files; its own limit holds`,
            }
          : ENFORCED,
      disk: this.limitsDisk(info)
        ? ENFORCED
        : { level: 'none', reason: `Docker’s ${info.Driver} here does not limit what a container writes` },
    }
  }

  /** A limit somebody asked for holds or is refused, before anything is made. */
  refuseMissing(required: readonly Limited[], levels: LimitLevels): void {
    const missing = required.filter((limit) => levels[limit].level !== 'enforced')
    if (missing.length === 0) return
    throw new AgentPodError({
      code: 'unsupported',
      reason: 'limits.unenforced',
      message: `this Docker daemon cannot enforce a limit on ${missing.join(', ')}: ${levels[missing[0] ?? 'disk'].reason}`,
      hint: missing.includes('disk')
        ? 'leave the option out, or give Docker an overlay2 store on xfs with pquota; crun has disk limits'
        : 'leave the option out, or see `agentpod provider check docker`',
      details: { missing },
    })
  }
}

/** overlay2 needs xfs with project quotas; whether they are on, only a try tells. */
function mayLimitDisk({ Driver, DriverStatus }: Info): boolean {
  if (Driver === 'btrfs' || Driver === 'zfs') return true
  const backing = DriverStatus.find(([name]) => name === 'Backing Filesystem')?.[1]
  return Driver === 'overlay2' && backing === 'xfs'
}
