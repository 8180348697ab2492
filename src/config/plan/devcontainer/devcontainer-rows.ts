/** What `agentpod config explain` says about a devcontainer. */

import { type LifecycleRun, type LifecycleStep, OWN_ORIGIN } from '../../devcontainer/lifecycle.ts'
import { CONTAINER_STAGES } from '../../devcontainer/properties.ts'
import type { Evidence } from '../../evidence.ts'
import type { ExplainedChoice } from '../explained-choice.ts'
import type { Plan } from '../plan.ts'
import type { DevcontainerGroup } from './compose-parts.ts'

export function devcontainerRows({ devcontainer, workspace, user }: Plan): ExplainedChoice[] {
  if (!devcontainer) return []
  const { features, plan, evidence, initialize, main } = devcontainer
  const { group } = devcontainer.base
  const row = (key: string, value: string, from: Evidence): ExplainedChoice => ({
    key,
    value,
    rank: 'devcontainer',
    from,
    beat: [],
  })
  const { cpus, memoryMib, storageMib } = plan.hostRequirements
  const sizes = [
    ...(cpus > 0 ? [`${cpus} processors`] : []),
    ...(memoryMib > 0 ? [`${memoryMib} MiB of memory`] : []),
    ...(storageMib > 0 ? [`${storageMib} MiB of disk`] : []),
  ]
  return [
    row('user', user, devcontainer.userEvidence),
    row('workspace', workspace, devcontainer.workspaceEvidence),
    ...(group ? [row('service', group.compose.service.name, evidence(['service'], 'service'))] : []),
    ...(main ? [{ ...row('command', 'at every start', commandFrom(group)), run: main.run }] : []),
    ...plan.entrypoints
      .filter(({ lacks }) => lacks.length === 0)
      .map(({ run, origin }) => ({
        ...row('entrypoint', 'at every start', { file: '', said: origin }),
        run,
      })),
    ...features.map(({ name, version, digest }) =>
      row(
        `features.${name}`,
        [version, digest?.slice(0, 19)].filter(Boolean).join(' '),
        evidence(['features', name], 'features'),
      ),
    ),
    ...(initialize
      ? [
          {
            ...row(
              'initializeCommand',
              'in the sandbox',
              evidence(['initializeCommand'], 'initializeCommand'),
            ),
            run: stepText(initialize),
          },
        ]
      : []),
    ...CONTAINER_STAGES.flatMap((stage) =>
      plan.lifecycle[stage].map((step) => ({
        ...row(stage, WHEN[stage], step.origin === OWN_ORIGIN ? evidence([stage], stage) : from(step)),
        run: stepText(step),
      })),
    ),
    ...(sizes.length > 0
      ? [row('hostRequirements', sizes.join(', '), evidence(['hostRequirements'], 'hostRequirements'))]
      : []),
    ...plan.safety
      .filter(({ verdict }) => verdict === 'refused' || verdict === 'no-effect')
      .map(({ property, reason, evidence: from }) => row(property, `not used: ${reason}`, from)),
  ]
}

function commandFrom(group: DevcontainerGroup | undefined): Evidence {
  const { file = '', line, name = '', command } = group?.compose.service ?? {}
  return command === undefined
    ? { file: '', said: 'the command of the image' }
    : { file, line, said: `services.${name}.command` }
}

function from({ origin }: LifecycleStep): Evidence {
  return { file: '', said: origin }
}

const WHEN = {
  onCreateCommand: 'once, when the copy of the project is prepared',
  updateContentCommand: 'when the files of the copy changed',
  postCreateCommand: 'once in each sandbox',
  postStartCommand: 'at every start',
  postAttachCommand: 'when a shell opens',
} as const

function stepText({ runs }: LifecycleStep): string {
  const text = (run: LifecycleRun): string => ('shell' in run ? run.shell : JSON.stringify(run.program))
  return runs.map(({ name, run }) => (name === undefined ? text(run) : `${name}: ${text(run)}`)).join('; ')
}
