/** Errors in E2B's form: the status, repeated in the body, and a message. */
import type { ServerResponse } from 'node:http'
import { asAgentPodError } from '../../core/error.ts'
import { errorBody, errorStatus } from '../http/error-response.ts'

export interface E2bError {
  /** The HTTP status: the SDKs read it here. */
  readonly code: number
  readonly message: string
}

/** AgentPod's own paths. Every other path of the API's host is E2B's. */
const OURS = /^\/(?:v1(?:\/|$)|health$|docs(?:\/|$)|openapi\.json$|metrics$|$)/

export function isE2bPath(path: string): boolean {
  return !OURS.test(path)
}

export function e2bError(thrown: unknown, incident?: string): E2bError {
  const { message, hint } = errorBody(thrown, incident).body.error
  return { code: e2bStatus(thrown), message: hint ? `${message} (${hint})` : message }
}

/** E2B does not use 412 and 422: such errors become 400. */
function e2bStatus(thrown: unknown): number {
  const error = asAgentPodError(thrown)
  if (error.reason === 'e2b.later') return 501
  if (error.code === 'unsupported' || error.code === 'failed_precondition') return 400
  return errorStatus(error)
}

/** The answer of a listener that refuses a request before it reaches the routes. */
export function answerE2bError(response: ServerResponse, thrown: unknown): void {
  const body = e2bError(thrown)
  answer(response, body.code, body)
}

/** envd's two forms of errors: Connect's code for calls, the status for files. */
export function answerEnvdError(response: ServerResponse, path: string, thrown: unknown): void {
  const { code: status, message } = e2bError(thrown)
  const isCall = /^\/(?:process|filesystem)\./.test(path)
  answer(response, status, { code: isCall ? connectCode(thrown) : status, message })
}

function connectCode(thrown: unknown): string {
  const { code } = asAgentPodError(thrown)
  return code === 'unsupported' ? 'unimplemented' : code === 'policy_denied' ? 'permission_denied' : code
}

function answer(response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body)
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
  })
  response.end(text)
}
