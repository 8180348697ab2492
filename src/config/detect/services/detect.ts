/**
 * Finds the services that a project uses, from all files that mention one. The plan decides what to do with
 * them.
 */
import { isObject, type JsonObject, objectAt } from '../../../util/untrusted-json.ts'
import type { Evidence } from '../../evidence.ts'
import { directoryOf, type FileTree, nameOf } from '../../file-tree.ts'
import type { FoundService } from '../finding.ts'
import { dependencyEvidence, nodeManifests } from '../node/package-json.ts'
import { evidenceAt, linesIn } from '../project-files/find-lines.ts'
import { isIgnored, ownFiles } from '../project-files/ignored-directories.ts'
import { imageName, tagVersion } from '../project-files/image-name.ts'
import {
  lineOf,
  readTextFile,
  readTomlFile,
  shortQuote,
  stringsAt,
  textAt,
} from '../project-files/parsed-file.ts'
import { agentWorkflow, workflows } from '../project-files/workflows.ts'
import { readYamlFile } from '../project-files/yaml-file.ts'
import { allDependencies, declaredDependencies } from '../python/dependencies.ts'
import { pythonProjects } from '../python/project.ts'
import { readRequirements } from '../python/requirements.ts'
import { serviceAccount } from './accounts.ts'
import { composeServices } from './compose-file.ts'
import { type EnvEntry, envExamples } from './env-example.ts'
import {
  DRIVER_LINES,
  NODE_DRIVERS,
  PYTHON_DRIVERS,
  RUST_DRIVERS,
  RUST_FEATURES,
  SERVICE_IMAGES,
  SERVICE_SCHEMES,
} from './known-names.ts'

export interface FoundVariable {
  readonly name: string
  readonly value: string
  readonly evidence: Evidence
}

const MOST_FILES = 100
const MOST_FOUND = 500

/**
 * The most certain first: services started beside the project, then those in its configuration, then those
 * its drivers could use.
 */
export function detectServices(tree: FileTree): readonly FoundService[] {
  return [
    ...composed(tree),
    ...inWorkflows(tree),
    ...inGitlab(tree),
    ...envExamples(tree).flatMap(fromVariable),
    ...inSettings(tree),
    ...nodeDrivers(tree),
    ...pythonDrivers(tree),
    ...rustDrivers(tree),
    ...driverLines(tree),
  ].slice(0, MOST_FOUND)
}

/** Addresses of services on this machine, or by the name that a compose file gives them. */
export function detectVariables(tree: FileTree): readonly FoundVariable[] {
  const names = new Set(composeServices(tree).map(({ name }) => name))
  const seen = new Set<string>()
  return envExamples(tree).flatMap(({ file, line, name, value }) => {
    const address = addressOf(value)
    if (!address || seen.has(name) || !/^[A-Z][A-Z0-9_]*$/.test(name)) return []
    if (!LOCAL.has(address.host) && !names.has(address.host)) return []
    seen.add(name)
    return [{ name, value, evidence: { file, line, said: shortQuote(`${name}=${value}`) } }]
  })
}

const LOCAL: ReadonlySet<string> = new Set([
  'localhost',
  '127.0.0.1',
  '0.0.0.0',
  '[::1]',
  'host.docker.internal',
])
const ADDRESS =
  /^([a-z][a-z0-9]{1,20})(?:\+\w{1,20})?:\/\/(?:[^\s/@]{0,200}@)?([\w.-]{1,200}|\[::1\])(?=[:/?]|$)/

/** Undefined if it is not the URL of a service or is built from other variables. */
function addressOf(value: string): { readonly service: string; readonly host: string } | undefined {
  if (value.length > 500 || value.includes('$')) return undefined
  const [, scheme = '', host = ''] = ADDRESS.exec(value) ?? []
  const service = SERVICE_SCHEMES.get(scheme)
  return service === undefined ? undefined : { service, host }
}

function fromVariable({ file, line, name, value }: EnvEntry): FoundService[] {
  const evidence = { file, line, said: shortQuote(`${name}=${value}`) }
  const address = addressOf(value)
  if (address) return [{ name: address.service, evidence }]
  // Laravel names the kind apart from the place.
  const kind = name === 'DB_CONNECTION' || name === 'DATABASE_CLIENT' ? SERVICE_SCHEMES.get(value) : undefined
  if (kind !== undefined) return [{ name: kind, evidence }]
  if (name === 'REDIS_HOST' && value !== '') return [{ name: 'redis', evidence }]
  return name === 'MEMCACHED_HOST' && value !== '' && !/memcached_host/i.test(value)
    ? [{ name: 'memcached', evidence }]
    : []
}

interface Given {
  readonly variables: JsonObject
  readonly command?: string
  lookUp?(name: string): string | undefined
}

function fromImage(written: string, place: Omit<Evidence, 'said'>, given: Given): FoundService[] {
  const image = imageName(written)
  const known = image && SERVICE_IMAGES.find(([pattern]) => pattern.test(image.name))
  if (!image || !known) return []
  const version = known[2]?.exec(image.tag)?.[1] ?? tagVersion(image.tag)
  const { variables, command = '', lookUp = () => undefined } = given
  const account = serviceAccount(known[1], variables, command, lookUp)
  return [
    {
      name: known[1],
      ...(version !== undefined && { version: majorOf(known[1], version) }),
      ...(account && { account }),
      evidence: { ...place, said: shortQuote(`image: ${written}`) },
    },
  ]
}

/** The first number, or the first two for old versions in which the second marks a major version. */
function majorOf(service: string, version: string): string {
  const [major = '', minor] = version.split('.')
  const isOld = (service === 'postgres' && major === '9') || (service === 'mysql' && major === '5')
  return isOld && minor !== undefined ? `${major}.${minor}` : major
}

function composed(tree: FileTree): FoundService[] {
  const examples = envExamples(tree)
  const lookUp = (name: string): string | undefined =>
    examples.find((one) => one.name === name && one.value !== '')?.value
  return composeServices(tree).flatMap(({ file, image, line, variables, command }) =>
    fromImage(image, { file, line }, { variables, command, lookUp }),
  )
}

function inWorkflows(tree: FileTree): FoundService[] {
  const agent = agentWorkflow(tree)
  return [...(agent ? [agent] : []), ...workflows(tree)].flatMap(({ file, jobs }) =>
    jobs.flatMap(({ services }) =>
      services.flatMap(({ image, line, variables }) => fromImage(image, { file, line }, { variables })),
    ),
  )
}

function inGitlab(tree: FileTree): FoundService[] {
  const file = '.gitlab-ci.yml'
  const yaml = readYamlFile(tree, file)
  if (!yaml) return []
  const jobs = Object.keys(yaml.data).filter((key) => isObject(yaml.data[key]))
  return [[], ...jobs.slice(0, 200).map((job) => [job])].flatMap((path) => {
    const from = path[0] === undefined ? yaml.data : yaml.data[path[0]]
    const variables = { ...objectAt(yaml.data, 'variables'), ...objectAt(from, 'variables') }
    const list = isObject(from) && Array.isArray(from['services']) ? from['services'] : []
    return list.slice(0, 20).flatMap((one, at) => {
      const image = typeof one === 'string' ? one : textAt(one, 'name')
      return image === undefined
        ? []
        : fromImage(image, { file, line: yaml.lineAt([...path, 'services', at]) }, { variables })
    })
  })
}

/** Every name that `inSettings` knows. */
const SETTINGS =
  /\.prisma$|^database\.yml(?:\.|$)|^alembic\.ini$|^(?:settings|config|database|db|base|test|testing|local|production)\.py$/

/** Files in which frameworks name their database. */
function inSettings(tree: FileTree): FoundService[] {
  const wanted = (file: string): RegExp | undefined => {
    const name = nameOf(file)
    if (name.endsWith('.prisma'))
      return /^\s{0,10}provider\s{0,5}=\s{0,5}"(postgresql|mysql|mongodb|sqlserver)"/
    if (name === 'database.yml' || name.startsWith('database.yml.'))
      return /^\s{0,10}adapter:\s{0,5}['"]?(postgresql|postgis|mysql2|trilogy)\b/
    if (name === 'alembic.ini') return /^sqlalchemy\.url\s{0,5}=\s{0,5}(\w{1,20})(?:\+\w{1,20})?:\/\//
    if (/^(?:settings|config|database|db|base|test|testing|local|production)\.py$/.test(name))
      return /django\.(?:contrib\.gis\.)?db\.backends\.(postgresql|postgis|mysql)|['"](postgresql|postgres|mysql|redis|amqp|mongodb)(?:\+\w{1,20})?:\/\//
    return undefined
  }
  return tree
    .matching(SETTINGS)
    .filter((file) => wanted(file) !== undefined && !isIgnored(directoryOf(file)))
    .slice(0, MOST_FILES)
    .flatMap((file) => {
      const pattern = wanted(file)
      const seen = new Set<string>()
      return linesIn(tree, file).flatMap(({ text, number }) => {
        const [said, first, second] = pattern?.exec(text) ?? []
        const service = SERVICE_SCHEMES.get(first ?? second ?? '')
        if (said === undefined || service === undefined || seen.has(service)) return []
        seen.add(service)
        return [{ name: service, evidence: evidenceAt(file, number, text) }]
      })
    })
}

function nodeDrivers(tree: FileTree): FoundService[] {
  const manifests = nodeManifests(tree)
  const counted = new Set(ownFiles(manifests.map(({ file }) => file)))
  return manifests
    .filter(({ file }) => counted.has(file))
    .flatMap((manifest) =>
      [...manifest.dependencies.keys()].flatMap((name) => {
        const service = NODE_DRIVERS.get(name)
        return service === undefined ? [] : [{ name: service, evidence: dependencyEvidence(manifest, name) }]
      }),
    )
}

function pythonDrivers(tree: FileTree): FoundService[] {
  return pythonProjects(tree)
    .slice(0, MOST_FILES)
    .flatMap((project) => [project, ...project.members])
    .flatMap((project) => {
      const files = project.requirementFiles.slice(0, 20).map((file) => readRequirements(tree, file))
      const all = [
        ...allDependencies(declaredDependencies(project)),
        ...files.flatMap(({ requirements }) => requirements),
      ]
      const seen = new Set<string>()
      return all.flatMap(({ name, extras, evidence }) => {
        const key = `${name} ${evidence.file} ${evidence.line}`
        const services = [PYTHON_DRIVERS.get(name), ...extras.map((extra) => extraService(name, extra))]
        if (seen.has(key)) return []
        seen.add(key)
        return services.flatMap((service) => (service === undefined ? [] : [{ name: service, evidence }]))
      })
    })
}

/** `celery[redis]`, `sqlalchemy[postgresql]`. */
function extraService(name: string, extra: string): string | undefined {
  if (
    ![
      'celery',
      'kombu',
      'sqlalchemy',
      'dramatiq',
      'huey',
      'databases',
      'tortoise-orm',
      'flask-caching',
    ].includes(name)
  )
    return undefined
  if (/^(?:postgresql|asyncpg|psycopg)/.test(extra)) return 'postgres'
  if (/^(?:mysql|aiomysql|asyncmy|pymysql)/.test(extra)) return 'mysql'
  return extra === 'redis' || extra === 'rabbitmq' ? extra : undefined
}

function rustDrivers(tree: FileTree): FoundService[] {
  return ownFiles(tree.named('Cargo.toml'))
    .slice(0, MOST_FILES)
    .flatMap((file) => {
      const read = readTomlFile(tree, file)
      if (!read) return []
      const tables = ['dependencies', 'dev-dependencies'].flatMap((key) => [
        ...Object.entries(objectAt(read.data, key)),
        ...Object.entries(objectAt(read.data, 'workspace', key)),
      ])
      return tables.slice(0, 1000).flatMap(([name, wanted]) => {
        const features = stringsAt(wanted, 'features')
        const own = RUST_DRIVERS.get(name)
        const spoken = ['sqlx', 'diesel', 'diesel-async', 'sea-orm', 'rbatis'].includes(name)
          ? RUST_FEATURES.flatMap(([feature, service]) =>
              features.some((one) => feature.test(one)) ? [service] : [],
            )
          : []
        const said = features.length > 0 ? `${name}, features ${features.join(', ')}` : name
        const line = lineOf(read.text, `\n${name} `) ?? lineOf(read.text, `\n${name}=`)
        const evidence = evidenceAt(file, line === undefined ? lineOf(read.text, name) : line + 1, said)
        return (own === undefined ? spoken : [own]).map((service) => ({ name: service, evidence }))
      })
    })
}

function driverLines(tree: FileTree): FoundService[] {
  return DRIVER_LINES.flatMap(([pattern, drivers]) =>
    ownFiles(tree.matching(pattern))
      .slice(0, MOST_FILES)
      .filter((file) => readTextFile(tree, file) !== undefined)
      .flatMap((file) => {
        const seen = new Set<string>()
        return linesIn(tree, file).flatMap(({ text, number }) => {
          if (text.endsWith('// indirect')) return []
          const known = drivers.find(([driver]) => driver.test(text))
          if (!known || seen.has(known[1])) return []
          seen.add(known[1])
          return [{ name: known[1], evidence: evidenceAt(file, number, text) }]
        })
      }),
  )
}
