/**
 * The driver for agents that get the prompt as an argument and then print lines of JSON or text. They read no
 * input.
 */

import type { RunEventBody, Tokens } from '../../core/run.ts'
import type { JsonObject } from '../../util/untrusted-json.ts'
import type { Driver, DriverStep, TurnEnd } from './driver.ts'
import { readLine } from './output/json.ts'

/** How to read an agent's lines. `Own` is small, plain JSON. */
export interface LineWays<Own> {
  readonly start: Own
  /** `message` is undefined if the line is not a JSON object. */
  read(own: Own, message: JsonObject | undefined, line: string): Reading<Own>
  /** How the turn ended, after the process exited. */
  end(own: Own, exitCode: number): TurnEnd
}

export interface Reading<Own> {
  readonly own: Own
  readonly events?: readonly RunEventBody[] | undefined
  readonly session?: string | undefined
  readonly tokens?:
    | (Tokens & { readonly costUsd: number | undefined; readonly model: string | undefined })
    | undefined
}

interface LineState<Own> {
  readonly own: Own
  readonly isCanceled: boolean
  readonly isOver: boolean
}

/** The turn ends when the process exits. What the agent reports about its success is part of `own`. */
export function lineDriver<Own>(ways: LineWays<Own>): Driver<LineState<Own>> {
  const still = (state: LineState<Own>): DriverStep<LineState<Own>> => ({
    state,
    events: [],
    send: [],
    questions: [],
  })
  return {
    talks: false,
    begin: () => still({ own: ways.start, isCanceled: false, isOver: false }),
    line(state, line) {
      if (state.isOver) return still(state)
      const { own, events = [], session, tokens } = ways.read(state.own, readLine(line), line)
      return { ...still({ ...state, own }), events, session, tokens }
    },
    answer: still,
    cancel: (state) => still({ ...state, isCanceled: true }),
    exit(state, exitCode) {
      if (state.isOver) return still(state)
      const end: TurnEnd = state.isCanceled
        ? { how: 'canceled', message: undefined }
        : ways.end(state.own, exitCode)
      return { ...still({ ...state, isOver: true }), end }
    },
  }
}

/** The result by the exit code alone. */
export function endByExit(exitCode: number, complaint?: string): TurnEnd {
  if (exitCode === 0) return { how: 'done', message: undefined }
  return { how: 'failed', message: complaint ?? `it exited with code ${exitCode}` }
}
