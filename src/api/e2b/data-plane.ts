/**
 * How E2B's SDKs reach into sandboxes: headers, tokens, signed file addresses, and the errors they expect.
 */
import type { IncomingMessage } from 'node:http'
import { AgentPodError, invalid, isAgentPodError } from '../../core/error.ts'
import { isVolumeId, type SandboxId } from '../../core/id.ts'
import { LOCAL } from '../../core/principal.ts'
import type { Engine } from '../../engine/engine.ts'
import type { Clock } from '../../util/clock.ts'
import { hasBody } from '../data-plane/forward-to-guest.ts'
import type { DataAccess, DataPlaneDialect, SandboxTarget } from '../door/data-plane-dialect.ts'
import { answerError, requestPath } from '../door/front-door.ts'
import { isSameToken, type SandboxTokens } from '../door/sandbox-tokens.ts'
import { answerE2bError, answerEnvdError, isE2bPath } from './error-response.ts'
import {
  ACCESS_TOKEN_HEADER,
  ENVD_PORT,
  SANDBOX_ID_HEADER,
  SANDBOX_PORT_HEADER,
  TRAFFIC_TOKEN_HEADER,
} from './headers.ts'
import { answerMissing, answerPortClosed, isMissing } from './missing-sandbox.ts'
import { fileUrl, isExpired, isSigned, signedFileOf } from './signed-file.ts'
import { uploadOwner } from './templates/upload-token.ts'

export interface E2bDialectParts {
  readonly engine: Engine
  readonly tokens: SandboxTokens
  readonly clock: Clock
}

export function e2bDialect({ engine, tokens, clock }: E2bDialectParts): DataPlaneDialect {
  return {
    dataPort: ENVD_PORT,
    // E2B's file calls act as root where the sandbox has sudo.
    fileRules: 'e2b',
    targetOf: (request) => namedTarget(request) ?? signedTarget(engine, tokens, request),
    checkData: (request, id, mayAct) =>
      checkData(request, { token: () => tokens.dataToken(id), mayAct, now: () => clock.now() }),
    trafficToken: (request) => headerOf(request, TRAFFIC_TOKEN_HEADER),
    ownerByToken: (request) =>
      volumeOwner(engine, tokens, request) ??
      uploadOwner({ sign: tokens.sign, now: () => clock.now() }, request),
    ownsPath: isE2bPath,
    answerError: answerE2bError,
    answerSandboxError(request, response, target, error) {
      if (isMissing(error)) answerMissing(request, response, target.id)
      else if (isAgentPodError(error) && error.reason === 'port.closed')
        answerPortClosed(request, response, target)
      else if (target.port === ENVD_PORT) answerEnvdError(response, requestPath(request), error)
      else answerError(response, error)
    },
  }
}

function namedTarget(request: IncomingMessage): SandboxTarget | undefined {
  const id = headerOf(request, SANDBOX_ID_HEADER)
  if (id === undefined) return undefined
  const port = String(request.headers[SANDBOX_PORT_HEADER] ?? ENVD_PORT)
  if (!/^[1-9]\d{0,4}$/.test(port) || Number(port) > 65535)
    throw invalid('port.malformed', 'a port is a number from 1 to 65535')
  return { kind: 'sandbox', id: id as SandboxId, port: Number(port) }
}

/**
 * A signed address on the shared origin names no sandbox: the sandbox is the one whose token made the
 * signature.
 */
function signedTarget(
  engine: Engine,
  tokens: SandboxTokens,
  request: IncomingMessage,
): SandboxTarget | undefined {
  const signed = signedFileOf(request)
  if (!signed) return undefined
  const found = engine.sandboxes
    .list({ labels: {}, all: false }, LOCAL)
    .find(({ id }) => isSigned(signed.file, signed.given, tokens.dataToken(id)))
  if (!found) throw badSignature()
  return { kind: 'sandbox', id: found.id, port: ENVD_PORT }
}

/**
 * SECURITY: CP-23. Exactly the paths that the routes of volume files have, before any decoding: the token of
 * a volume opens the files of that volume and nothing else.
 */
const VOLUME_FILES = /^\/volumecontent\/(vol[a-z0-9]{16})\/(?:dir|path|file)$/

/** The owner of the volume that a request is for, if it carries the volume's token. */
function volumeOwner(engine: Engine, tokens: SandboxTokens, request: IncomingMessage): string | undefined {
  const [, id = ''] = VOLUME_FILES.exec(requestPath(request)) ?? []
  const [, token] = /^Bearer ([0-9a-f]{64})$/i.exec(request.headers.authorization ?? '') ?? []
  if (!isVolumeId(id) || !isSameToken(token, tokens.volumeToken(id))) return undefined
  try {
    return engine.volumes.find(id, LOCAL).owner
  } catch (error) {
    if (isAgentPodError(error, 'not_found')) return undefined
    throw error
  }
}

function checkData(
  request: IncomingMessage,
  o: { token(): string; readonly mayAct: boolean; now(): number },
): DataAccess {
  if (requestPath(request) === '/health' && !hasBody(request)) return 'open'
  const token = o.token()
  if (o.mayAct && isSameToken(headerOf(request, ACCESS_TOKEN_HEADER), token)) return 'token'
  const signed = signedFileOf(request)
  if (signed && o.mayAct && isSigned(signed.file, signed.given, token)) {
    if (isExpired(signed.file, o.now())) throw badSignature('signature is already expired')
    // SECURITY: the guest parses URLs differently from Node: of `path=/a;b&path=/c` it would take the second
    // path. It gets only the fields that were checked.
    request.url = fileUrl(signed.file)
    return 'signature'
  }
  if (signed) throw badSignature()
  throw new AgentPodError({
    code: 'unauthenticated',
    reason: 'token.invalid',
    message: "the sandbox's access token is missing or wrong",
  })
}

/** E2B's own words, which programs look for. They do not tell a forger which part was wrong. */
function badSignature(message = 'invalid signature'): AgentPodError {
  return new AgentPodError({ code: 'unauthenticated', reason: 'signature.invalid', message })
}

function headerOf(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name]
  return typeof value === 'string' ? value : undefined
}
