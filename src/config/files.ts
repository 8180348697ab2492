/** The configuration files: a project's `agentpod.toml`, and the user's `config.toml` in the state directory. */
import { join } from 'node:path'
import { z } from 'zod'
import { grantedBy, grantsTable } from './grants-table.ts'
import { type NetworkWish, networkTable, secretsTable, wishOf } from './network-table.ts'
import { projectWish } from './project/data.ts'
import { type ProjectFile, parseProject } from './project/project-file.ts'
import { parseToml, readSource, type TomlSource } from './toml.ts'

export const PROJECT_FILE = 'agentpod.toml'
export const USER_FILE = 'config.toml'

const userSchema = z.strictObject({
  network: networkTable.optional(),
  secrets: secretsTable.optional(),
  grants: grantsTable.optional(),
})

/** The whole file with the places of what it says. Undefined where the project has none. */
export function readProjectFile(directory: string): ProjectFile | undefined {
  const file = join(directory, PROJECT_FILE)
  const text = readSource(file)
  return text === undefined ? undefined : parseProject({ file, text })
}

/** SECURITY: CF-02. What it says is a wish; `combine` decides what comes of it. Undefined where the project has no such file. */
export function readProject(directory: string): NetworkWish | undefined {
  const file = readProjectFile(directory)
  return file && projectWish(file.data)
}

export function readUser(home: string): NetworkWish {
  const file = join(home, USER_FILE)
  const text = readSource(file, { isOurs: true })
  return text === undefined ? wishOf(undefined, 'user') : parseUser({ file, text })
}

export function parseUser(source: TomlSource): NetworkWish {
  const { data } = parseToml(source, userSchema)
  return { ...wishOf(data, 'user'), ...(data.grants && { privileges: grantedBy(data.grants) }) }
}
