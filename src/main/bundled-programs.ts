/** Finds the programs that a server starts: those of this installation, or of a build of the source tree. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { AgentPodError } from '../core/error.ts'

export interface BundledPrograms {
  readonly podhost: string
  readonly podd: string
  /** The first program in virtual machines. Left out where there are none. */
  readonly vminit?: string | undefined
  /** Speaks to registries. Left out if it is not built: there are no images on this machine then. */
  readonly podimage?: string | undefined
  /** Changes files in the sandboxes of a Dockerfile's build. Built with podimage. */
  readonly podfiles?: string | undefined
  /** The egress process: JavaScript, or its source. */
  readonly egress: string
  /** The directory of what runs inside the template `code-interpreter-v1`; without it there is none. */
  readonly interpreter?: string | undefined
}

/**
 * A package has one directory per processor architecture; a build of the source tree has only this machine's.
 */
export function bundledPrograms(): BundledPrograms {
  const here = import.meta.dirname
  const found = [here, join(here, '..'), join(here, '..', '..', 'dist')]
    .flatMap((directory) => [join(directory, 'bin'), join(directory, 'bin', process.arch)])
    .find((directory) => existsSync(join(directory, 'podhost')))
  if (found === undefined)
    throw new AgentPodError({
      code: 'failed_precondition',
      reason: 'programs.missing',
      message: `podhost and podd are not built for this processor (${process.arch})`,
      hint: 'start through ./agentpod of a clone, which builds them, or run scripts/build',
    })
  const bundle = [here, join(here, '..')]
    .map((directory) => join(directory, 'egress.js'))
    .find((file) => existsSync(file))
  const vminit = join(found, 'vminit')
  const podimage = join(found, 'podimage')
  const podfiles = join(found, 'podfiles')
  return {
    podhost: join(found, 'podhost'),
    podd: join(found, 'podd'),
    ...(existsSync(vminit) && { vminit }),
    ...(existsSync(podimage) && { podimage }),
    ...(existsSync(podfiles) && { podfiles }),
    egress: bundle ?? join(here, 'egress.ts'),
    interpreter:
      [here, join(here, '..')].map((one) => join(one, 'interpreter')).find((one) => existsSync(one)) ??
      join(here, '..', 'api', 'e2b', 'interpreter', 'inside'),
  }
}
