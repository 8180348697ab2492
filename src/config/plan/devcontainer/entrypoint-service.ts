/** The entrypoints of Features as a service of the sandbox, in front of the command of the container. */
import type { MemberService } from '../../compose/member-plan.ts'
import type { DevcontainerEnvironment } from './devcontainer-environment.ts'

const START_MS = 60_000
const STOP_MS = 10_000

/** What entrypoints leave running belongs to this service, so it stays. */
const STAY = `trap 'exit 0' 15
while sleep 3600 & wait $!; do :; done
`

/**
 * As the official command does it: one after another, as the user of the container, and a failure of one does
 * not keep the next from starting. Then the command of the container, if it is started.
 */
export function containerService({
  main,
  plan,
  containerUser,
}: Pick<DevcontainerEnvironment, 'main' | 'plan' | 'containerUser'>): MemberService | undefined {
  const started = plan.entrypoints.filter(({ lacks }) => lacks.length === 0)
  if (started.length === 0) return main
  const before = started.map(({ run }) => `${run}\n`).join('')
  if (main) return { ...main, run: `${before}${main.run}` }
  return {
    name: 'entrypoints',
    run: `${before}${STAY}`,
    user: containerUser,
    workdir: '/',
    variables: {},
    ready: { timeoutMs: START_MS },
    needsProject: true,
    stopSignal: 'SIGTERM',
    stopMs: STOP_MS,
  }
}
