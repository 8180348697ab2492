/** The configuration files: a project's `agentpod.toml`, and the user's `config.toml` in the state directory. */
import { join } from 'node:path'
import { z } from 'zod'
import { type NetworkWish, networkTable, secretsTable, wishOf } from './network-table.ts'
import { readToml } from './toml.ts'

export const PROJECT_FILE = 'agentpod.toml'
export const USER_FILE = 'config.toml'

const schema = z.strictObject({ network: networkTable.optional(), secrets: secretsTable.optional() })

/** SECURITY: CF-02. What it says is a wish; `combine` decides what comes of it. Undefined where the project has no such file. */
export function readProject(directory: string): NetworkWish | undefined {
  const file = readToml(join(directory, PROJECT_FILE), schema)
  return file && wishOf(file, 'project')
}

export function readUser(home: string): NetworkWish {
  return wishOf(readToml(join(home, USER_FILE), schema), 'user')
}
