/** What Features and the image's label start with the container. */
import type { MetadataEntry } from './image-metadata.ts'
import type { SafetyItem } from './safety.ts'

export interface EntrypointPlan {
  /** A command for /bin/sh. */
  readonly run: string
  /** The Feature, or the image. */
  readonly origin: string
  /** What it needs and a sandbox does not give; then it is not started. */
  readonly lacks: readonly string[]
}

/** In the order in which they start. Of two that say the same, the first counts. */
export function entrypointPlans(
  entries: readonly MetadataEntry[],
  safety: readonly SafetyItem[],
): readonly EntrypointPlan[] {
  const plans = entries.flatMap(({ entrypoint, id }): EntrypointPlan[] => {
    if (!entrypoint) return []
    const origin = id ?? 'the image'
    const refused = safety.filter((item) => item.verdict === 'refused' && item.origin === origin)
    return [{ run: entrypoint, origin, lacks: refused.map(({ property, value }) => `${property} ${value}`) }]
  })
  return plans.filter(({ run }, at) => plans.findIndex((one) => one.run === run) === at)
}
