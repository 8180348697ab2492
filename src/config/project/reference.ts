/** The reference page of `agentpod.toml`, made from its schema. */
import { grantsTable } from '../grants/grants-table.ts'
import { registryTable } from '../registries/registries-table.ts'
import { sandboxesTable } from '../sandboxes-table.ts'
import { describedSchema, type JsonSchema } from './json-schema.ts'
import { projectSchema } from './schema.ts'

interface Row {
  readonly key: string
  readonly schema: JsonSchema
}

interface Section {
  readonly name: string
  readonly description: string
  readonly rows: readonly Row[]
}

const INTRODUCTION = `# agentpod.toml

This page is generated from the schema. \`agentpod config schema\` prints the schema for editors, and
\`agentpod config check\` checks a file against it.

\`agentpod.toml\` is in the top directory of a project. The file and all its keys are optional: missing values are
detected or have a default. An unknown key is an error, and every error names its line and column.

A project's file can only ask. Sizes, languages, services and commands apply directly. Anything that gives more access
needs the user's approval once: hosts and secrets beyond the user's own file, \`sudo\`, public ports, container images,
and permissions of agents that the user’s own file does not allow. See
[the network of a sandbox](../guides/network.md#your-file-and-a-projects).

| kind of value | written as |
|---|---|
| command | a string for /bin/sh, run in the project's directory |
| size | a string with its unit: \`"512MB"\`, \`"4GB"\`, \`"1.5TB"\`; units are multiples of 1024 |
| time | a string with its unit: \`"500ms"\`, \`"90s"\`, \`"15m"\`, \`"1h"\`, \`"2d"\` |
| port | a whole number from 1 to 65535 |
| path | a string: a file or directory below the project |
| version | a string: a version or a range, in the syntax of its language, or \`"latest"\` |
| rule | a string or a table that names a host |`

const TOP = 'These keys go at the top of the file.'

/** By the name of the section. Each is a file that can be read. */
export const EXAMPLES: Readonly<Record<string, string>> = {
  '': 'isolation = "container"',
  environment: `[environment]
name = "my-project"
base = "fullstack"
user = "user"
sudo = false`,
  'environment.languages': `[environment.languages]
node = "22"
python = ">=3.12,<4"
java = false                  # not even if it is detected`,
  'environment.packages': `[environment.packages]
apt = ["libpq-dev", "graphviz"]
npm = ["typescript@5"]
pip = ["ruff"]`,
  'environment.variables': `[environment.variables]
NODE_ENV = "development"
PORT = "3000"                 # always a string`,
  services: `[services]
postgres = { version = "15", port = 5432 }
redis = {}
mysql = false                 # not even if it is detected
mongodb = { enabled = false, version = "7" }  # off, with its settings kept
mail = { run = "mailpit", ready = { port = 1025, timeout = "10s" } }

[services.worker]
run = "npm run worker"
ready = "test -e /tmp/worker.ready"
workdir = "apps/worker"
variables = { QUEUE = "default" }
stop = "SIGINT"`,
  addons: `[addons]
code-server = true
gui = { port = 6081 }`,
  ports: `[ports]
3000 = { label = "Frontend", public = true }
8080 = { label = "API" }`,
  lifecycle: `[lifecycle]
setup = { run = ["npm ci", "scripts/bootstrap.sh"], inputs = ["scripts/bootstrap.sh"] }
start = "npm run migrate"
dev = "npm run dev"
test = ["npm run lint", "npm test"]
build = false`,
  resources: `[resources]
cpus = 4
memory = "8GB"
disk = "20GB"
bandwidth = "10MB"
timeout = "2h"
idle = "15m"`,
  volumes: `[volumes]
pip = "~/.cache/pip"
data = { path = "/var/lib/app", size = "10GB" }
models = { path = "/srv/models", read_only = true }`,
  ephemeral: `[ephemeral]
paths = ["tmp", "/var/tmp/build", "~/.cache/app"]
size = "2GB"`,
  network: `[network]
presets = ["npm", "github"]
allow = [
  "api.example.com",
  { host = "files.example.com", methods = ["GET"], paths = ["/public/**"] },
]
deny = ["tracker.example.com"]`,
  secrets: `[secrets]
OPENAI_API_KEY = { hosts = ["api.openai.com"], required = true }`,
  agents: `[agents]
default = "claude"
time = "30m"
max_cost = 5.0`,
  'agents.permissions': `[agents.permissions]
bash = { "*" = "ask", "npm test*" = "allow", "git push*" = "deny" }
write = "allow"
network = "deny"`,
  'profiles.NAME': `[network]
presets = ["npm", "github"]

[profiles.ci.resources]
memory = "2GB"
timeout = "20m"

[profiles.ci.network]
presets = ["npm"]

[profiles.ci.agents.permissions]
bash = "deny"`,
}

/** An example of the user's file. */
export const USER_EXAMPLE = `[grants]
sudo = true
ports = [3000, 8080]          # or true, for any
permissions = ["network"]`

/** An example of the registries in the user's file. */
const REGISTRIES_EXAMPLE = `[registries."registry.example.com"]
ca = "registry-ca.pem"            # in the state directory, or an absolute path
mirrors = ["mirror.example.com"]

[registries."localhost:5000"]
insecure = true`

const USER_FILE = `## Your own file

\`config.toml\` in the state directory is your own file. At its top, \`provider = "docker"\` sets the provider for sandboxes
when no option and no \`AGENTPOD_PROVIDER\` names another (\`agentpod provider ls\` lists them). \`[network]\` and
\`[secrets]\` have the same keys as above and grant what they name. \`[agents]\` has the same keys as above; a project's
file can make it stricter, never wider. \`[grants]\` lists what projects get without a question. A grant gives nothing to
a project that does not ask for it.`

const REGISTRIES = `\`[registries."HOST"]\` says how a registry of container images is reached:`

const SANDBOXES = `\`[sandboxes]\` limits what is kept:`

export function projectReference(): string {
  const grants = sectionsOf('grants', describedSchema(grantsTable)).flatMap(({ rows }) => rows)
  const sandboxes = sectionsOf('sandboxes', describedSchema(sandboxesTable)).flatMap(({ rows }) => rows)
  const registries = sectionsOf('registries', describedSchema(registryTable)).flatMap(({ rows }) => rows)
  return `${[
    INTRODUCTION,
    ...sectionsOf('', describedSchema(projectSchema)).map(written),
    USER_FILE,
    table(grants),
    fenced(USER_EXAMPLE),
    REGISTRIES,
    table(registries),
    fenced(REGISTRIES_EXAMPLE),
    SANDBOXES,
    table(sandboxes),
  ].join('\n\n')}\n`
}

function written({ name, description, rows }: Section): string {
  const example = EXAMPLES[name]
  return [
    name === '' ? '## Before the first table' : `## \`[${name}]\``,
    name === '' ? TOP : description,
    table(rows),
    ...(example === undefined ? [] : [fenced(example)]),
  ].join('\n\n')
}

function table(rows: readonly Row[]): string {
  const lines = rows.map(
    ({ key, schema }) =>
      `| \`${key}\` | ${kindOf(schema)} | ${textOf(schema, 'absent')} | ${textOf(schema, 'description')} |`,
  )
  return ['| key | value | when left out | |', '|---|---|---|---|', ...lines].join('\n')
}

function fenced(example: string): string {
  return `\`\`\`toml\n${example}\n\`\`\``
}

/** A section for each table that a file can have a header for. */
function sectionsOf(name: string, schema: JsonSchema): Section[] {
  const description = textOf(schema, 'description')
  const entry = schema['additionalProperties']
  if (isSchema(entry)) return [entriesSection(name, description, entry)]
  const members = Object.entries(propertiesOf(schema))
  const rows = members.filter(([, inner]) => !isTable(inner)).flatMap(([key, inner]) => rowsOf(key, inner))
  const own = rows.length > 0 ? [{ name, description, rows }] : []
  return [
    ...own,
    ...members
      .filter(([, inner]) => isTable(inner))
      .flatMap(([key, inner]) => sectionsOf(name === '' ? key : `${name}.${key}`, inner)),
  ]
}

/** A table whose keys the project chooses. */
function entriesSection(name: string, description: string, entry: JsonSchema): Section {
  const inner = [entry, ...alternatives(entry)].find((one) => Object.keys(propertiesOf(one)).length > 0)
  const key = name === 'ports' ? 'PORT' : 'NAME'
  if (!inner) return { name, description, rows: [{ key, schema: entry }] }
  const members = Object.entries(propertiesOf(inner))
  // A profile repeats the tables of the file.
  if (members.every(([, one]) => isTable(one)))
    return {
      name: `${name}.NAME`,
      description,
      rows: members.map(([own, one]) => ({ key: own, schema: one })),
    }
  return { name, description, rows: members.flatMap(([own, one]) => rowsOf(`${key}.${own}`, one)) }
}

/** A row for a key, and for each key of the table that its value may be. */
function rowsOf(key: string, schema: JsonSchema): Row[] {
  const items = schema['items']
  const [inner] = [schema, ...alternatives(schema), ...(isSchema(items) ? alternatives(items) : [])]
    .map(propertiesOf)
    .filter((properties) => Object.keys(properties).length > 0)
  const isRepeated = key === 'deny'
  const below = isSchema(items) ? `${key}[]` : key
  return [
    { key, schema },
    ...(inner && !isRepeated
      ? Object.entries(inner).flatMap(([name, one]) => rowsOf(`${below}.${name}`, one))
      : []),
  ]
}

const KINDS: Readonly<Record<string, string>> = {
  string: 'string',
  boolean: '`true` or `false`',
  integer: 'whole number',
  number: 'number',
  object: 'table',
}

function kindOf(schema: JsonSchema): string {
  const { kind, type, items } = schema
  const words = schema['enum']
  if (typeof kind === 'string') return kind
  if (Array.isArray(words)) return either(words.map((word) => `\`${JSON.stringify(word)}\``))
  if (isSchema(items)) return `list of ${kindOf(items)}s`
  return KINDS[String(type)] ?? either(alternatives(schema).map(kindOf))
}

function either(words: readonly string[]): string {
  return words.length < 2 ? words.join() : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
}

function textOf(schema: JsonSchema, name: 'description' | 'absent'): string {
  const text = schema[name]
  return typeof text === 'string' ? text : ''
}

function propertiesOf(schema: JsonSchema): Record<string, JsonSchema> {
  return (schema['properties'] ?? {}) as Record<string, JsonSchema>
}

function alternatives(schema: JsonSchema): readonly JsonSchema[] {
  return (schema['anyOf'] ?? []) as readonly JsonSchema[]
}

function isTable(schema: JsonSchema): boolean {
  return schema['type'] === 'object'
}

function isSchema(value: unknown): value is JsonSchema {
  return typeof value === 'object' && value !== null
}
