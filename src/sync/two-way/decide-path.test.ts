import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  ABSENT,
  BLOCKED,
  decidePath,
  isAbsent,
  isSameState,
  type PathDecision,
  type PathState,
  stateKey,
} from './decide-path.ts'

const file = (hash: string, isExecutable = false): PathState => ({ kind: 'file', hash, isExecutable })
const [A, B, C] = [file('a'), file('b'), file('c')]
const AX = file('a', true)
const BX = file('b', true)
const L: PathState = { kind: 'link', target: 'a' }
const M: PathState = { kind: 'link', target: 'b' }
const UNREAD: PathState = { kind: 'file', hash: undefined, isExecutable: false }
/** A directory, or what else cannot be carried. */
const D = BLOCKED
const _ = ABSENT

const NAMES = new Map<PathState, string>([
  [A, 'A'],
  [B, 'B'],
  [C, 'C'],
  [AX, 'A, executable'],
  [BX, 'B, executable'],
  [L, 'a link'],
  [M, 'another link'],
  [D, 'a directory'],
  [_, 'nothing'],
  [UNREAD, 'something unread'],
])

const TABLE: [base: PathState, host: PathState, inside: PathState, decision: PathDecision][] = [
  // Nobody changed it.
  [_, _, _, 'none'],
  [A, A, A, 'none'],
  [AX, AX, AX, 'none'],
  [L, L, L, 'none'],
  [UNREAD, UNREAD, UNREAD, 'none'],
  [_, D, _, 'none'],
  [_, _, D, 'none'],
  [_, D, D, 'none'],
  // Only the host did.
  [_, A, _, 'send'],
  [_, L, _, 'send'],
  [A, B, A, 'send'],
  [A, AX, A, 'send'],
  [AX, A, AX, 'send'],
  [A, L, A, 'send'],
  [L, A, L, 'send'],
  [L, M, L, 'send'],
  [A, _, A, 'send'],
  [L, _, L, 'send'],
  [A, D, A, 'send'],
  [L, D, L, 'send'],
  [UNREAD, B, UNREAD, 'send'],
  [UNREAD, _, UNREAD, 'send'],
  // Only the sandbox did.
  [_, _, A, 'take'],
  [_, _, L, 'take'],
  [A, A, B, 'take'],
  [A, A, AX, 'take'],
  [A, A, L, 'take'],
  [L, L, A, 'take'],
  [L, L, M, 'take'],
  [A, A, _, 'take'],
  [L, L, _, 'take'],
  [A, A, D, 'take'],
  [L, L, D, 'take'],
  [UNREAD, UNREAD, B, 'take'],
  [UNREAD, UNREAD, _, 'take'],
  // Both did the same.
  [_, A, A, 'agree'],
  [_, L, L, 'agree'],
  [A, B, B, 'agree'],
  [A, AX, AX, 'agree'],
  [A, L, L, 'agree'],
  [A, _, _, 'agree'],
  [A, D, D, 'agree'],
  [A, D, _, 'agree'],
  [A, _, D, 'agree'],
  [UNREAD, B, B, 'agree'],
  // Both did, and not the same.
  [_, A, B, 'conflict'],
  [_, A, L, 'conflict'],
  [_, L, A, 'conflict'],
  [_, L, M, 'conflict'],
  [A, B, C, 'conflict'],
  [A, AX, B, 'conflict'],
  [A, B, AX, 'conflict'],
  [A, B, L, 'conflict'],
  [A, L, B, 'conflict'],
  [L, M, A, 'conflict'],
  [UNREAD, B, C, 'conflict'],
  [_, D, A, 'conflict'],
  [_, D, L, 'conflict'],
  [A, D, B, 'conflict'],
  [A, D, L, 'conflict'],
  // The same bytes are no conflict: the host says whether they may be run.
  [_, AX, A, 'send'],
  [_, A, AX, 'send'],
  [A, B, BX, 'send'],
  // What was written goes before what was removed.
  [A, _, B, 'take'],
  [A, _, L, 'take'],
  [L, _, A, 'take'],
  [A, B, _, 'send'],
  [A, L, _, 'send'],
  [A, AX, _, 'send'],
  // A directory inside is not written over.
  [_, A, D, 'stuck'],
  [A, B, D, 'stuck'],
  [A, L, D, 'stuck'],
]

describe('decisions of two-way sync', () => {
  for (const [base, host, inside, decision] of TABLE) {
    const [was, ours, theirs] = [base, host, inside].map((state) => NAMES.get(state))
    test(`a path that was ${was}, is ${ours} here and ${theirs} in the sandbox: ${decision}`, () => {
      assert.equal(decidePath(base, host, inside), decision)
    })
  }

  test('no decision removes a state that only one side has', () => {
    const states = [...NAMES.keys()].filter((state) => state !== UNREAD)
    for (const base of states.filter((state) => state !== D))
      for (const host of states)
        for (const inside of states) {
          const decision = decidePath(base, host, inside)
          const what = [base, host, inside].map((state) => NAMES.get(state)).join(' / ')
          // What the other side's state takes the place of must be the base, or nothing.
          if (decision === 'take') assert.ok(host === ABSENT || isSameState(base, host), what)
          if (decision === 'send')
            assert.ok(inside === ABSENT || isSameState(base, inside) || sameBytes(host, inside), what)
          if (decision === 'agree')
            assert.ok(isSameState(host, inside) || (isAbsent(host) && isAbsent(inside)), what)
          if (decision === 'none')
            assert.ok(isSameState(host, inside) || (isAbsent(host) && isAbsent(inside)), what)
        }
  })

  test('a file that was never read equals only itself', () => {
    assert.ok(isSameState(UNREAD, UNREAD))
    assert.ok(!isSameState(UNREAD, { ...UNREAD }))
  })

  test('each state has its own key', () => {
    const keys = [...NAMES.keys()].map(stateKey)
    assert.equal(new Set(keys).size, keys.length)
  })
})

function sameBytes(a: PathState, b: PathState): boolean {
  return a.kind === 'file' && b.kind === 'file' && a.hash === b.hash
}
