/** Which limits the daemon can enforce, and which it has refused to set. */
import type { CallOptions } from '../../../core/call.ts'
import { AgentPodError } from '../../../core/error.ts'
import type { Limited, LimitLevel, LimitLevels } from '../../../core/resources.ts'
import { type Daemon, parseAnswer } from './daemon.ts'
import { INFO, type Info } from './responses.ts'

const ENFORCED: LimitLevel = { level: 'enforced' }

export class DaemonLimits {
  readonly #daemon: Daemon
  #info: Promise<Info> | undefined
  /** The lowest number of open files that the daemon has refused to set. */
  #filesRefused = Number.POSITIVE_INFINITY
  #diskRefused = false

  constructor(daemon: Daemon) {
    this.#daemon = daemon
  }

  /** The daemon's description of itself; requested once. */
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

  /** Forgets the answer: the daemon may have changed since. */
  forget(): void {
    this.#info = undefined
  }

  /** The number of open files to set; undefined if the daemon has refused it before. */
  files(wanted: number): number | undefined {
    return wanted < this.#filesRefused ? wanted : undefined
  }

  /** A daemon without CAP_SYS_RESOURCE cannot allow more open files than it has itself. */
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
      isThere ? ENFORCED : { level: 'none', reason: `the kernel of the Docker daemon cannot limit ${what}` }
    return {
      memory: byKernel(info.MemoryLimit, 'memory'),
      swap: byKernel(info.SwapLimit, 'swap'),
      cpus: byKernel(info.CpuCfsQuota || info.CPUCfsQuota === true, 'processors'),
      pids: byKernel(info.PidsLimit, 'processes'),
      files:
        this.files(files) === undefined
          ? {
              level: 'none',
              reason: `the Docker daemon may not set ${files} open files; its own limit applies`,
            }
          : ENFORCED,
      disk: this.limitsDisk(info)
        ? ENFORCED
        : {
            level: 'none',
            reason: `Docker’s storage driver ${info.Driver} does not limit the disk usage of a container here`,
          },
    }
  }

  /** A requested limit is enforced or refused, before anything is created. */
  refuseMissing(required: readonly Limited[], levels: LimitLevels): void {
    const missing = required.filter((limit) => levels[limit].level !== 'enforced')
    if (missing.length === 0) return
    throw new AgentPodError({
      code: 'unsupported',
      reason: 'limits.unenforced',
      message: `this Docker daemon cannot enforce a limit on ${missing.join(', ')}: ${levels[missing[0] ?? 'disk'].reason}`,
      hint: missing.includes('disk')
        ? 'leave the option out, use Docker with overlay2 on xfs with pquota, or use the provider crun'
        : 'leave the option out, or see `agentpod provider check docker`',
      details: { missing },
    })
  }
}

/** overlay2 needs xfs with project quotas; only a try shows whether they are enabled. */
function mayLimitDisk({ Driver, DriverStatus }: Info): boolean {
  if (Driver === 'btrfs' || Driver === 'zfs') return true
  const backing = DriverStatus.find(([name]) => name === 'Backing Filesystem')?.[1]
  return Driver === 'overlay2' && backing === 'xfs'
}
