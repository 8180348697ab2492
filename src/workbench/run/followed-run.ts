import type { Run } from '../../client/runs.ts'

/** As much of a run as following needs. */
export type FollowedRun = Pick<Run, 'id' | 'info' | 'follow' | 'refresh' | 'cancel' | 'answer'>
