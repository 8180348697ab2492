/** Generates the OpenAPI 3.1 description from the route table. */
import * as z from 'zod'
import type { ErrorCode } from '../../core/error.ts'
import { AgentPodError } from '../../core/error.ts'
import { errorStatus } from '../http/error-response.ts'
import { type ApiRoute, REQUESTS, type RouteAnswer, SCHEMAS, type SchemaName, TAGS } from './route.ts'
import { ALWAYS, ANY_ERRORS, DATA_PLANE, ROUTES } from './route-table.ts'

type Json = Record<string, unknown>

export function openApi(version: string): Json {
  return {
    openapi: '3.1.0',
    info: {
      title: 'AgentPod',
      version,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      description: `The control plane of an AgentPod server. ${DATA_PLANE}`,
    },
    servers: [{ url: '/', description: 'This server.' }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    security: [{ key: [] }, { bearer: [] }],
    paths: paths(),
    components: {
      securitySchemes: {
        key: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
        bearer: { type: 'http', scheme: 'bearer' },
      },
      schemas: Object.fromEntries(
        (Object.keys(SCHEMAS) as SchemaName[]).map((name) => [
          name,
          jsonSchema(SCHEMAS[name], REQUESTS.has(name) ? 'input' : 'output'),
        ]),
      ),
    },
  }
}

function paths(): Json {
  const found: Record<string, Json> = {}
  for (const route of ROUTES) {
    const item = found[route.path] ?? {}
    found[route.path] = item
    item[route.method.toLowerCase()] = operation(route)
  }
  return found
}

function operation(route: ApiRoute): Json {
  const parameters = [...pathParameters(route), ...queryParameters(route), ...headerParameters(route)]
  return {
    operationId: operationId(route),
    tags: [route.tag],
    summary: route.summary,
    ...(route.description && { description: route.description }),
    ...(route.who === 'anyone' && { security: [] }),
    'x-agentpod-who': route.who,
    ...(parameters.length > 0 && { parameters }),
    ...(route.body && {
      requestBody: {
        required: isNeeded(route.body),
        content: { 'application/json': { schema: ref(route.body) } },
      },
    }),
    ...(route.stream && { requestBody: { required: true, content: { [route.stream]: {} } } }),
    responses: { ...successes(route.answers), ...failures(route) },
  }
}

/** A body is optional if all of its keys are. */
function isNeeded(name: SchemaName): boolean {
  return !SCHEMAS[name].safeParse({}).success
}

function operationId({ method, path }: ApiRoute): string {
  const words = path.replace(/^\/v1/, '').split(/[^a-zA-Z]+/)
  return [method.toLowerCase(), ...words.filter(Boolean)]
    .map((word, i) => (i === 0 ? word : word.charAt(0).toUpperCase() + word.slice(1)))
    .join('')
}

function pathParameters({ parameters = {} }: ApiRoute): Json[] {
  return Object.entries(parameters).map(([name, description]) => ({
    name,
    in: 'path',
    required: true,
    description,
    schema: { type: 'string' },
  }))
}

function headerParameters({ headers = {} }: ApiRoute): Json[] {
  return Object.entries(headers).map(([name, description]) => ({
    name,
    in: 'header',
    required: false,
    description,
    schema: { type: 'string' },
  }))
}

export function queryParameters({ query }: ApiRoute): Json[] {
  if (!query) return []
  const { properties = {} } = jsonSchema(query, 'input') as { properties?: Record<string, Json> }
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: 'query',
    required: false,
    description,
    schema,
    ...(schema['type'] === 'array' && { style: 'form', explode: true }),
  }))
}

function successes(answers: readonly RouteAnswer[]): Json {
  const byStatus: Record<string, { description: string; headers: Json; content: Json }> = {}
  for (const answer of answers) {
    const one = byStatus[answer.status] ?? {
      description: answer.says,
      headers: { 'agentpod-request-id': header('The id of this request in the server’s log.') },
      content: {},
    }
    byStatus[answer.status] = one
    for (const [name, says] of Object.entries(answer.headers ?? {})) one.headers[name] = header(says)
    const schema =
      answer.schema && (answer.isList ? { type: 'array', items: ref(answer.schema) } : ref(answer.schema))
    if (schema || answer.media) one.content[answer.media ?? 'application/json'] = schema ? { schema } : {}
  }
  return Object.fromEntries(
    Object.entries(byStatus).map(([status, { content, ...rest }]) => [
      status,
      Object.keys(content).length > 0 ? { ...rest, content } : rest,
    ]),
  )
}

function header(description: string): Json {
  return { description, schema: { type: 'string' } }
}

/** The error codes of a route, without duplicates. */
export function codesOf({ who, errors }: ApiRoute): ErrorCode[] {
  return who === 'anyone' ? [] : [...new Set([...ANY_ERRORS, ...errors, ...ALWAYS])]
}

export function statusOf(code: ErrorCode): number {
  return errorStatus(new AgentPodError({ code, reason: '', message: '' }))
}

function failures(route: ApiRoute): Json {
  const byStatus = new Map<number, ErrorCode[]>()
  for (const code of codesOf(route))
    byStatus.set(statusOf(code), [...(byStatus.get(statusOf(code)) ?? []), code])
  return Object.fromEntries(
    [...byStatus].map(([status, codes]) => [
      String(status),
      {
        description: codes.join(', '),
        ...(status === 429 && { headers: { 'Retry-After': header('Whole seconds.') } }),
        content: { 'application/json': { schema: ref('Error') } },
      },
    ]),
  )
}

function ref(name: SchemaName): Json {
  return { $ref: `#/components/schemas/${name}` }
}

export function jsonSchema(schema: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _, ...rest } = z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as Json
  // Drops undefined keys, such as a parameter's pattern that its type replaces.
  return JSON.parse(JSON.stringify(rest)) as Json
}
