import type { ProjectData } from '../project/data.ts'
import type { FoundBase } from '../project/found-base.ts'
import type { Lock } from './lock.ts'
import { byRank } from './resolve/by-rank.ts'

/** The image or Dockerfile that a plan uses if the user approves it and nothing stronger names a base. */
export function usedBase(
  bases: readonly FoundBase[],
  data: ProjectData | undefined,
  lock: Lock | undefined,
): FoundBase | undefined {
  const { base, suite, image, dockerfile } = data?.environment ?? {}
  const isNamed = [base, suite, image, dockerfile, lock].some((one) => one !== undefined)
  return isNamed ? undefined : byRank(bases)[0]
}
