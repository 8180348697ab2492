/** Named places between two steps where a test makes the process die or a step fail. A look costs one comparison. */
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
  'stop.intended',
  'stop.ended',
  'start.intended',
  'start.made',
  'snapshot.intended',
  'snapshot.taken',
  'snapshot.recorded',
  'snapshot.unlisted',
  'fork.taken',
  'fork.made',
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

/** `create.made=kill` or `create.made=ENOSPC`: where, and what happens there. Nothing is armed in ordinary use. */
export function armFailpoint(text: string): void {
  ;[armed = '', action = 'kill'] = text.split('=', 2)
  act = undefined
}

/** For tests of an engine that dies in the process of its test: what happens at the next pass of the point, once. */
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
