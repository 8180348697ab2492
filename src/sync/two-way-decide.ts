/**
 * What becomes of one path when two sides have it. The last state that both agreed on decides who changed it. Nothing here reads or writes.
 */

/** What a path is on one side. `blocked` is what cannot be carried: a directory, a socket, a device. */
export type State =
  | { readonly kind: 'absent' }
  | { readonly kind: 'blocked' }
  | { readonly kind: 'link'; readonly target: string }
  | {
      readonly kind: 'file'
      /** Undefined while nobody needed it: the state is then equal to itself alone. */
      readonly hash: string | undefined
      readonly isExecutable: boolean
    }

export const ABSENT: State = { kind: 'absent' }
export const BLOCKED: State = { kind: 'blocked' }

/**
 * `none`: nothing to do. `agree`: both sides are the same by now, which is the new base. `send`: the host's goes inside. `take`: the
 * sandbox's comes out. `conflict`: the sandbox's is put beside the host's, whose own then goes inside. `stuck`: neither side can have the
 * other's, so both stay. To send or to take what is not there is to remove it on the other side.
 */
export type Decision = 'none' | 'agree' | 'send' | 'take' | 'conflict' | 'stuck'

/** INVARIANT: a state that only one side has, and that is not the base, is never removed without a copy of it elsewhere. */
export function decide(base: State, host: State, inside: State): Decision {
  if (isGone(host) && isGone(inside)) return isGone(base) ? 'none' : 'agree'
  if (isSame(host, inside)) return isSame(base, host) ? 'none' : 'agree'
  if (isSame(base, host)) return 'take'
  if (isSame(base, inside)) return 'send'
  // From here on both changed it, and not to the same. What somebody wrote goes before what somebody removed.
  if (host.kind === 'absent') return 'take'
  if (inside.kind === 'absent') return 'send'
  if (inside.kind === 'blocked') return 'stuck'
  return isSameContent(host, inside) ? 'send' : 'conflict'
}

/** Whether nothing that could be carried is there. */
export function isGone(state: State): boolean {
  return state.kind === 'absent' || state.kind === 'blocked'
}

export function isSame(a: State, b: State): boolean {
  if (a === b) return true
  if (a.kind === 'file' && b.kind === 'file') return isSameContent(a, b) && a.isExecutable === b.isExecutable
  if (a.kind === 'link' && b.kind === 'link') return a.target === b.target
  return a.kind === b.kind && a.kind !== 'file'
}

function isSameContent(a: State, b: State): boolean {
  return a.kind === 'file' && b.kind === 'file' && a.hash !== undefined && a.hash === b.hash
}

/** One text for each state, to tell whether a state was seen before. */
export function keyOf(state: State): string {
  if (state.kind === 'file') return `file ${state.isExecutable ? 'x' : '-'} ${state.hash ?? ''}`
  return state.kind === 'link' ? `link ${state.target}` : state.kind
}
