/**
 * Decides what to do about one path that two sides have. The last state that both agreed on (the base) shows
 * which side changed it. Nothing here reads or writes.
 */

/** What a path is on one side. `blocked` is anything that is not synced: a directory, a socket, a device. */
export type PathState =
  | { readonly kind: 'absent' }
  | { readonly kind: 'blocked' }
  | { readonly kind: 'link'; readonly target: string }
  | {
      readonly kind: 'file'
      /** Undefined until it is needed. The state then equals only itself. */
      readonly hash: string | undefined
      readonly isExecutable: boolean
    }

export const ABSENT: PathState = { kind: 'absent' }
export const BLOCKED: PathState = { kind: 'blocked' }

/**
 * `none`: nothing to do. `agree`: both sides are the same now, which is the new base. `send`: copy the host's
 * version into the sandbox. `take`: copy the sandbox's version to the host. `conflict`: save the sandbox's
 * version next to the host's, then send the host's. `stuck`: neither side can have the other's version, so
 * both are kept. Sending or taking an absent path removes it on the other side.
 */
export type PathDecision = 'none' | 'agree' | 'send' | 'take' | 'conflict' | 'stuck'

/**
 * INVARIANT: a state that only one side has, and that is not the base, is never removed unless a copy of it
 * exists.
 */
export function decidePath(base: PathState, host: PathState, inside: PathState): PathDecision {
  if (isAbsent(host) && isAbsent(inside)) return isAbsent(base) ? 'none' : 'agree'
  if (isSameState(host, inside)) return isSameState(base, host) ? 'none' : 'agree'
  if (isSameState(base, host)) return 'take'
  if (isSameState(base, inside)) return 'send'
  // From here on both sides changed it, and differently. A side that wrote wins over a side that removed.
  if (host.kind === 'absent') return 'take'
  if (inside.kind === 'absent') return 'send'
  if (inside.kind === 'blocked') return 'stuck'
  return isSameContent(host, inside) ? 'send' : 'conflict'
}

/** Whether the path has nothing that could be synced. */
export function isAbsent(state: PathState): boolean {
  return state.kind === 'absent' || state.kind === 'blocked'
}

export function isSameState(a: PathState, b: PathState): boolean {
  if (a === b) return true
  if (a.kind === 'file' && b.kind === 'file') return isSameContent(a, b) && a.isExecutable === b.isExecutable
  if (a.kind === 'link' && b.kind === 'link') return a.target === b.target
  return a.kind === b.kind && a.kind !== 'file'
}

function isSameContent(a: PathState, b: PathState): boolean {
  return a.kind === 'file' && b.kind === 'file' && a.hash !== undefined && a.hash === b.hash
}

/** A text that identifies a state, to tell whether it was seen before. */
export function stateKey(state: PathState): string {
  if (state.kind === 'file') return `file ${state.isExecutable ? 'x' : '-'} ${state.hash ?? ''}`
  return state.kind === 'link' ? `link ${state.target}` : state.kind
}
