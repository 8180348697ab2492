/** What `agentpod config explain` says about the services of a compose file. */
import { memberName } from '../../config/compose/member-plan.ts'
import type { ComposeService } from '../../config/compose/model.ts'
import type { ExplainedChoice } from '../../config/plan/explained-choice.ts'
import type { ProjectCompose } from './project-compose.ts'

export function explainCompose({ compose, service, why }: ProjectCompose): ExplainedChoice[] {
  return compose.services.map((one) => ({
    key: `compose.${one.name}`,
    value: one === service ? 'this sandbox' : `a sandbox named ${memberName(one.name)} in its group`,
    rank: 'compose file',
    from: { file: one.file, line: one.line, said: sourceOf(one) },
    beat: [],
    ...(one === service && { note: why }),
  }))
}

function sourceOf({ image, build }: ComposeService): string {
  return build ? `build: ${build.context === '' ? '.' : build.context}` : `image: ${image ?? ''}`
}
