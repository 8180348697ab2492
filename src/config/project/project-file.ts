/** Reads all of `agentpod.toml`: first against the schema, then checks across tables. */
import { baseKind } from '../../bases/bases.ts'
import { image } from '../../bases/image.ts'
import type { Base } from '../../core/environment.ts'
import { isAgentPodError } from '../../core/error.ts'
import { checkMountPaths, pathsOverlap } from '../../core/volume/mount-path.ts'
import { baseOf } from '../plan/named-bases.ts'
import type { Remark } from '../toml/problem.ts'
import { parseToml, type TomlFile, type TomlSource } from '../toml/toml-file.ts'
import { type ProjectData, projectData } from './data.ts'
import { checkProfiles } from './profiles.ts'
import { type ProjectTables, projectSchema } from './schema.ts'
import { isServiceName, SERVICE_NAMES } from './services-table.ts'

export type ProjectFile = TomlFile<ProjectData>

export function parseProject(source: TomlSource): ProjectFile {
  const { data, ...file } = parseToml(source, projectSchema, checkTables)
  return { ...file, data: projectData(data) }
}

function checkTables(tables: ProjectTables): Remark[] {
  return [
    ...suiteOfNone(tables),
    ...imageOfBase(tables),
    ...secretVariables(tables),
    ...sharedPorts(tables),
    ...addonClashes(tables),
    ...nestedVolumes(tables),
    ...nestedEphemeral(tables),
    ...checkProfiles(projectData(tables)),
  ]
}

/** The base that the file names, directly or through an image. */
function namedBase({ environment }: ProjectTables): Base | undefined {
  if (environment?.base !== undefined) return baseOf(environment.base)
  return environment?.image === undefined && environment?.dockerfile === undefined ? undefined : image.name
}

function suiteOfNone(tables: ProjectTables): Remark[] {
  const base = namedBase(tables)
  if (base === undefined || tables.environment?.suite === undefined) return []
  if (baseKind(base).releases.length > 0) return []
  return [
    {
      path: ['environment', 'suite'],
      message: `the base ${base} does not take a Debian release`,
      hint: 'leave it out, or set base = "debian"',
    },
  ]
}

const OF_IMAGE = { key: 'image', text: 'an image' }
const OF_DOCKERFILE = { key: 'dockerfile', text: 'a Dockerfile' }

/** A base that takes an image has exactly one, by its name or from a Dockerfile. */
function imageOfBase(tables: ProjectTables): Remark[] {
  const base = namedBase(tables)
  const { image: ref, dockerfile } = tables.environment ?? {}
  if (base === undefined) return []
  const first = ref === undefined ? (dockerfile === undefined ? undefined : OF_DOCKERFILE) : OF_IMAGE
  if (!baseKind(base).takesImage)
    return first === undefined
      ? []
      : [
          {
            path: ['environment', first.key],
            message: `the base ${tables.environment?.base} does not take ${first.text}`,
            hint: 'leave one of them out, or set base = "image"',
          },
        ]
  if (first === undefined)
    return [
      {
        path: ['environment', 'base'],
        message: 'needs the name of an image',
        hint: 'image = "debian:12"',
      },
    ]
  if (ref === undefined || dockerfile === undefined) return []
  return [
    {
      path: ['environment', 'dockerfile'],
      message: 'an environment starts from an image or from a Dockerfile, not from both',
      hint: 'leave one of them out; FROM in the Dockerfile names the image below it',
    },
  ]
}

/** The placeholder of a secret is in a variable of its name, and nothing else can be. */
function secretVariables({ environment, secrets = {} }: ProjectTables): Remark[] {
  return Object.keys(environment?.variables ?? {})
    .filter((name) => Object.hasOwn(secrets, name))
    .map((name) => ({
      path: ['environment', 'variables', name],
      isKey: true,
      message: 'is also the name of a secret, whose placeholder uses this variable',
      hint: 'remove it here or under [secrets]',
    }))
}

function nestedVolumes({ volumes = {} }: ProjectTables): Remark[] {
  const paths: string[] = []
  return Object.entries(volumes).flatMap(([name, one]) => {
    paths.push(typeof one === 'string' ? one : one.path)
    try {
      checkMountPaths(paths)
      return []
    } catch (error) {
      if (!isAgentPodError(error, 'invalid_argument')) throw error
      paths.pop()
      return [{ path: ['volumes', name], message: error.message, hint: error.hint }]
    }
  })
}

/** Paths below the project are compared with each other only: its place inside is not known here. */
function nestedEphemeral({ ephemeral, volumes = {} }: ProjectTables): Remark[] {
  const paths = ephemeral?.paths ?? []
  return paths.flatMap((path, n) => {
    const at = ['ephemeral', 'paths', n]
    const other = paths.slice(0, n).find((one) => pathsOverlap(one, path))
    if (other !== undefined)
      return [
        {
          path: at,
          message: other === path ? 'is named twice' : `${other} and ${path} are one inside the other`,
          hint: other === path ? 'remove one of them' : 'name the outer one only',
        },
      ]
    const volume = Object.entries(volumes).find(([, one]) =>
      pathsOverlap(typeof one === 'string' ? one : one.path, path),
    )
    if (!volume) return []
    const hint = 'a directory is kept or not: remove it here or under [volumes]'
    return [{ path: at, message: `overlaps with the volume ${volume[0]}`, hint }]
  })
}

/** Addons run beside the services, each under its own name and on its own port. */
function addonClashes(tables: ProjectTables): Remark[] {
  const { services, ports, addons } = projectData(tables)
  const taken = new Map<number, string>()
  for (const one of services)
    if (one.kind === 'known') taken.set(one.port ?? SERVICE_NAMES[one.name], `the service ${one.name}`)
    else if (one.kind === 'command' && one.ready?.port !== undefined)
      taken.set(one.ready.port, `the service ${one.name}`)
  for (const { port } of ports) taken.set(port, '[ports]')
  return addons.flatMap(({ name, port }) => {
    const path = ['addons', name]
    if (services.some((one) => one.kind !== 'none' && one.name === name))
      return [{ path, message: 'is also the name of a service', hint: 'rename the service' }]
    const other = taken.get(port)
    taken.set(port, `the addon ${name}`)
    if (other === undefined) return []
    return [
      { path, message: `uses port ${port}, as ${other} does`, hint: `${name} = { port = ${port + 1} }` },
    ]
  })
}

function sharedPorts({ services = {} }: ProjectTables): Remark[] {
  const taken = new Map<number, string>()
  return Object.entries(services).flatMap(([name, service]) => {
    if (service === false || service.enabled === false) return []
    if (service.run !== undefined || !isServiceName(name)) return []
    const port = service.port ?? SERVICE_NAMES[name]
    const other = taken.get(port)
    taken.set(port, name)
    if (other === undefined) return []
    const path = service.port === undefined ? ['services', name] : ['services', name, 'port']
    return [
      { path, message: `listens on port ${port}, as ${other} does`, hint: 'give one of them another port' },
    ]
  })
}
