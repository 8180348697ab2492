// biome-ignore-all lint/suspicious/noTemplateCurlyInString: compose files have variables of this form
/** Walks every key that the schema accepts: each is used, named in a note, or refused. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type * as z from 'zod'
import { isAgentPodError } from '../../core/error.ts'
import { readCompose } from './compose-project.ts'
import { composeSchema } from './schema.ts'

/** As much of zod's definitions as the walk needs. */
interface Definition {
  readonly type: string
  readonly innerType?: z.ZodType
  readonly in?: z.ZodType
  readonly element?: z.ZodType
  readonly valueType?: z.ZodType
  readonly options?: readonly z.ZodType[]
  readonly entries?: Readonly<Record<string, string>>
  readonly shape?: Readonly<Record<string, z.ZodType>>
}

const definitionOf = (schema: z.ZodType): Definition => schema.def as unknown as Definition

/** Values that mean something, where text alone does not. By the end of the path. */
const VALUES: Readonly<Record<string, unknown>> = {
  'services.web.image': 'z',
  'web.environment.0': 'A=b',
  'build.args.0': 'A=b',
  'services.web.ports.0': '8080:80',
  'ports.0.target': '81',
  'ports.0.published': '8081',
  'ports.0.protocol': 'tcp',
  'expose.0': '81',
  'services.web.volumes.0': 'one:/elsewhere',
  'volumes.0.type': 'bind',
  'volumes.0.source': './files',
  'volumes.0.target': '/files',
  tmpfs: '/scratch',
  'tmpfs.0': '/scratch',
  'tmpfs.size': '64m',
  'web.depends_on.0': 'db',
  'depends_on.one': 'x',
  interval: '7s',
  timeout: '7s',
  retries: '7',
  start_period: '7s',
  stop_grace_period: '7s',
  'healthcheck.test.0': 'NONE',
  'build.context': './files',
  'build.dockerfile': 'Other',
  env_file: 'more.env',
  'env_file.0': 'more.env',
  'env_file.0.path': 'more.env',
  'configs.0': 'two',
  'configs.0.source': 'two',
  'secrets.0': 'two',
  'secrets.0.source': 'two',
  'limits.cpus': '2',
  memory: '64m',
  cpus: '2',
  mem_limit: '64m',
  pids: '64',
  pids_limit: '64',
  network_mode: 'none',
  scale: '2',
  replicas: '2',
  extends: 'db',
  'extends.service': 'db',
  'extends.file': 'files/other.yaml',
  'include.0': 'files/other.yaml',
  'include.0.path': 'files/other.yaml',
  'include.0.path.0': 'files/other.yaml',
  project_directory: 'files',
  'include.0.env_file': 'more.env',
  'include.0.env_file.0': 'more.env',
  working_dir: '/srv',
  stop_signal: 'SIGINT',
  hostname: 'alias',
  container_name: 'alias',
  'aliases.0': 'alias',
  'environment.one': 'x',
  'configs.one.environment': 'KNOWN',
  'secrets.one.environment': 'KNOWN',
  'configs.one.file': './files/a',
  'secrets.one.file': './files/a',
}

/** What says nothing to AgentPod by its nature. */
const MEANINGLESS: Readonly<Record<string, string>> = {
  version: 'the specification says that it is ignored',
  'services.web.init': 'podd is the init process of every sandbox',
  'services.web.pid': 'the values that are accepted are those of every sandbox',
  'services.web.ipc': 'the values that are accepted are those of every sandbox',
  'services.web.uts': 'the values that are accepted are those of every sandbox',
  'services.web.privileged': 'false is what every sandbox has, and true is refused',
  'services.web.ports.0.protocol': 'tcp is the default, and udp is refused',
}

interface Leaf {
  readonly path: string
  /** The smallest value of the schema with this leaf in it. */
  readonly value: unknown
}

function valueAt(path: string, otherwise: unknown): unknown {
  const ends = Object.keys(VALUES).filter((end) => path === end || path.endsWith(`.${end}`))
  const [best] = ends.toSorted((a, b) => b.length - a.length)
  return best === undefined ? otherwise : VALUES[best]
}

function leavesOf(schema: z.ZodType, path: string): Leaf[] {
  const { type, innerType, in: input, element, valueType, options, entries, shape } = definitionOf(schema)
  const below = (inner: z.ZodType, key: string, wrap: (value: unknown) => unknown): Leaf[] =>
    leavesOf(inner, path === '' ? key : `${path}.${key}`).map((leaf) => ({
      ...leaf,
      value: wrap(leaf.value),
    }))
  if (innerType) return leavesOf(innerType, path)
  if (input) return leavesOf(input, path)
  if (options) return options.flatMap((option) => leavesOf(option, path))
  if (element) return below(element, '0', (value) => [value])
  if (valueType)
    return below(valueType, path === 'services' ? 'web' : 'one', (value) =>
      path === 'services' ? { web: value } : { one: value },
    )
  if (shape) {
    const needed = Object.entries(shape).filter(([, inner]) => !inner.isOptional())
    const required = Object.fromEntries(
      needed.map(([key, inner]) => [key, leavesOf(inner, `${path}.${key}`)[0]?.value]),
    )
    return Object.entries(shape).flatMap(([key, inner]) =>
      below(inner, key, (value) => ({ ...required, [key]: value })),
    )
  }
  if (entries) return [{ path, value: valueAt(path, Object.values(entries)[0]) }]
  if (type === 'unknown') return [{ path, value: valueAt(path, { a: 'x' }) }]
  return [{ path, value: valueAt(path, 'x') }]
}

type Table = Readonly<Record<string, unknown>>

/** Tables are merged; everything else is replaced. */
function merged(one: unknown, other: unknown): unknown {
  const isTable = (value: unknown): value is Table =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
  if (!isTable(one) || !isTable(other)) return other ?? one
  const keys = [...new Set([...Object.keys(one), ...Object.keys(other)])]
  return Object.fromEntries(keys.map((key) => [key, merged(one[key], other[key])]))
}

const PLAIN: Table = {
  services: {
    web: { image: 'x', volumes: ['one:/data'], configs: ['one'], secrets: ['one'] },
    db: { image: 'y', environment: { FROM: 'db' } },
  },
  volumes: { one: null },
  configs: { one: { content: 'a' }, two: { content: 'b' } },
  secrets: { one: { content: 'a' }, two: { content: 'b' } },
}
const FILES: Readonly<Record<string, string>> = {
  '.env': 'KNOWN=value\n',
  'more.env': 'MORE=value\n',
  'files/other.yaml':
    'services: { db2: { image: z, env_file: [{ path: a, required: false }] }, db: { image: "z${MORE}", user: me } }',
  'files/a': 'text',
}

/** The model without places in files. */
function modelOf(table: unknown): { readonly model: string; readonly notes: readonly string[] } {
  const text = JSON.stringify(table)
  const { notes, ...project } = readCompose({
    files: ['compose.yaml'],
    read: (file) => (file === 'compose.yaml' ? text : Object.hasOwn(FILES, file) ? FILES[file] : undefined),
    profiles: ['none'],
  })
  const model = JSON.stringify(project, (key, value: unknown) => (key === 'line' ? undefined : value))
  return { model, notes: notes.map(({ said }) => said) }
}

/** A config or secret comes from a file, a text or a variable, and not from two of them. */
function withoutSource(path: string): Table {
  const [, kind] = /^(configs|secrets)\.one\.(?:file|content|environment)$/.exec(path) ?? []
  return kind === undefined ? PLAIN : { ...PLAIN, [kind]: {} }
}

type Outcome = 'used' | 'noted' | 'refused' | 'dropped' | string

function outcomeOf({ path, value }: Leaf): Outcome {
  const isInclude = path.startsWith('include')
  const plain = modelOf(PLAIN)
  try {
    // A service that is included may not be in the file itself.
    const base = isInclude ? { services: { web: { image: 'x' } } } : withoutSource(path)
    const { model, notes } = modelOf(merged(base, value))
    const last =
      path
        .split('.')
        .filter((key) => key !== '0')
        .at(-1) ?? ''
    const others = notes.filter((note) => !plain.notes.includes(note))
    if (others.some((note) => note.includes(last) || path.split('.').some((key) => note.startsWith(key))))
      return 'noted'
    return model === (isInclude ? modelOf(base).model : plain.model) ? 'dropped' : 'used'
  } catch (error) {
    if (!isAgentPodError(error)) throw error
    return error.reason.startsWith('compose.') ? 'refused' : `not a sample: ${error.message}`
  }
}

test('CMP-13 every key of a compose file is used, noted or refused', () => {
  const leaves = leavesOf(composeSchema, '')
  assert.ok(leaves.length > 200, `${leaves.length} keys`)
  const wrong = leaves.flatMap((leaf) => {
    const outcome = outcomeOf(leaf)
    const isFine = ['used', 'noted', 'refused'].includes(outcome) || Object.hasOwn(MEANINGLESS, leaf.path)
    return isFine ? [] : [`${leaf.path} (${JSON.stringify(leaf.value)}): ${outcome}`]
  })
  assert.deepEqual(wrong, [])
})
