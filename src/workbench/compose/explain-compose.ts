/** What `agentpod config explain` says about the services of a compose file. */
import { memberName } from '../../config/compose/member-plan.ts'
import type { ComposeService } from '../../config/compose/model.ts'
import { serviceSettings, serviceVolumes } from '../../config/compose/service-settings.ts'
import type { ExplainedChoice } from '../../config/plan/explained-choice.ts'
import type { ProjectCompose } from './project-compose.ts'

export function explainCompose({ compose, service, why }: ProjectCompose): ExplainedChoice[] {
  return compose.services.flatMap((one) => {
    const isMain = one === service
    const row = (key: string, value: string, said: string): ExplainedChoice => ({
      key: `compose.${one.name}${key}`,
      value,
      rank: 'compose file',
      from: { file: one.file, line: one.line, said },
      beat: [],
    })
    const { cpus, memoryMib, pids, user } = one
    const { workspace } = serviceSettings(one)
    const limits = [
      ...(cpus === undefined ? [] : [`${cpus} processors`]),
      ...(memoryMib === undefined ? [] : [`${memoryMib} MiB of memory`]),
      ...(pids === undefined ? [] : [`${pids} processes`]),
    ]
    // Variables of this sandbox are among its own.
    const variables = isMain ? [] : Object.entries(one.environment)
    return [
      {
        ...row(
          '',
          isMain ? 'this sandbox' : `a sandbox named ${memberName(one.name)} in its group`,
          sourceOf(one),
        ),
        ...(isMain && { note: why }),
      },
      ...(isMain && workspace !== undefined ? [row('.directory', workspace, 'volumes')] : []),
      ...(user === undefined ? [] : [row('.user', user, 'user')]),
      ...(limits.length === 0 ? [] : [row('.limits', limits.join(', '), 'limits')]),
      ...serviceVolumes(compose, one).map(({ name, path, isShared }) =>
        row(
          `.volumes.${name}`,
          `at ${path}, ${isShared ? 'shared by services' : 'kept with `dev` and --keep'}`,
          'volumes',
        ),
      ),
      ...variables.map(([name, value]) => row(`.variables.${name}`, value, 'environment')),
    ]
  })
}

function sourceOf({ image, build }: ComposeService): string {
  return build ? `build: ${build.context === '' ? '.' : build.context}` : `image: ${image ?? ''}`
}
