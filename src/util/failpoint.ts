/**
 * Named places between two steps where a test can kill the process or fail a step. Each costs one comparison.
 */
export const FAILPOINTS = [
  'create.intended',
  'create.made',
  'create.configured',
  'create.recorded',
  'exec.forwarded',
  'pause.intended',
  'pause.frozen',
  'resume.intended',
  'resume.thawed',
  'disk.saved',
  'disk.restored',
  'stop.intended',
  'stop.ended',
  'start.intended',
  'start.made',
  'snapshot.intended',
  'snapshot.taken',
  'snapshot.recorded',
  'snapshot.unlisted',
  'volume.intended',
  'volume.made',
  'volume.unlisted',
  'volume.removed',
  'fork.taken',
  'fork.made',
  'group.intended',
  'group.made',
  'group.snapshots',
  'group.destroying',
  'destroy.intended',
  'destroy.removed',
  'build.ran',
  'build.kept',
  'run.intended',
  'run.staged',
  'run.begun',
  'run.started',
  'run.taken',
  'migration.applied',
] as const

export type Failpoint = (typeof FAILPOINTS)[number]

let armed = ''
let action = 'kill'
let act: (() => never) | undefined

/** `create.made=kill` or `create.made=ENOSPC`: the place and the action. Nothing is armed in production. */
export function armFailpoint(text: string): void {
  ;[armed = '', action = 'kill'] = text.split('=', 2)
  act = undefined
}

/** For in-process tests of a crashing engine: what happens the next time the point is passed, once. */
export function onFailpoint(name: Failpoint, happens: () => never): void {
  armed = name
  act = happens
}

export function failpoint(name: Failpoint): void {
  if (armed !== name) return
  if (act) passed(act)
  if (action === 'kill') process.kill(process.pid, 'SIGKILL')
  throw Object.assign(new Error(`${action}: failpoint ${name}`), { code: action })
}

function passed(happens: () => never): void {
  armed = ''
  act = undefined
  happens()
}
