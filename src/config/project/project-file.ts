/** `agentpod.toml`, read as a whole: the schema first, then what has to be right between tables. */
import type { Remark } from '../problem.ts'
import { parseToml, type TomlFile, type TomlSource } from '../toml.ts'
import { type ProjectData, projectData } from './data.ts'
import { checkProfiles } from './profiles.ts'
import { type ProjectTables, projectSchema } from './schema.ts'
import { isKnownService, KNOWN_SERVICES } from './services-table.ts'

export type ProjectFile = TomlFile<ProjectData>

export function parseProject(source: TomlSource): ProjectFile {
  const { data, ...file } = parseToml(source, projectSchema, checkTables)
  return { ...file, data: projectData(data) }
}

function checkTables(tables: ProjectTables): Remark[] {
  return [
    ...suiteOfHost(tables),
    ...secretVariables(tables),
    ...sharedPorts(tables),
    ...checkProfiles(projectData(tables)),
  ]
}

function suiteOfHost({ environment }: ProjectTables): Remark[] {
  if (environment?.base !== 'host' || environment.suite === undefined) return []
  return [
    {
      path: ['environment', 'suite'],
      message: 'the base host has no release of Debian to choose',
      hint: 'leave it out, or set base = "debian"',
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
      message: 'is a secret too, whose placeholder has that name',
      hint: 'leave it out here, or under [secrets]',
    }))
}

function sharedPorts({ services = {} }: ProjectTables): Remark[] {
  const taken = new Map<number, string>()
  return Object.entries(services).flatMap(([name, service]) => {
    if (service === false || service.run !== undefined || !isKnownService(name)) return []
    const port = service.port ?? KNOWN_SERVICES[name]
    const other = taken.get(port)
    taken.set(port, name)
    if (other === undefined) return []
    const path = service.port === undefined ? ['services', name] : ['services', name, 'port']
    return [
      { path, message: `listens on port ${port}, as ${other} does`, hint: 'give one of them another port' },
    ]
  })
}
