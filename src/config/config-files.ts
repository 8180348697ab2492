/**
 * The configuration files: a project's `agentpod.toml`, and the user's `config.toml` in the state directory.
 */
import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import * as z from 'zod'
import { LARGEST_DOCKERFILE } from '../core/build/dockerfile.ts'
import { ISOLATIONS, type Isolation } from '../core/capability.ts'
import { readInside } from '../util/file/read-inside.ts'
import { grantedBy, grantsTable } from './grants/grants-table.ts'
import { allowedWithoutAsking, withDefaultPermissions } from './grants/permissions.ts'
import type { Privileges } from './grants/privileges.ts'
import { type NetworkWish, networkTable, secretsTable, wishOf } from './network/network-table.ts'
import { agentsTable } from './project/agents-table.ts'
import { type AgentsWish, agentsWish, projectWish } from './project/data.ts'
import { dockerfileImages } from './project/dockerfile-images.ts'
import { type ProjectFile, parseProject } from './project/project-file.ts'
import { loadRegistries, type RegistryEntry, registriesTable } from './registries/registries-table.ts'
import { sandboxesTable } from './sandboxes-table.ts'
import { parseToml, readSource, type TomlSource } from './toml/toml-file.ts'

export const PROJECT_FILE = 'agentpod.toml'
export const USER_FILE = 'config.toml'

const providerName = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,31}$/, 'must be the name of a provider, such as docker')

const userSchema = z.strictObject({
  provider: providerName.optional(),
  isolation: z.enum(ISOLATIONS).optional(),
  network: networkTable.optional(),
  secrets: secretsTable.optional(),
  grants: grantsTable.optional(),
  agents: agentsTable.optional(),
  registries: registriesTable.optional(),
  sandboxes: sandboxesTable.optional(),
})

/** The whole file, with the position of each value. Undefined if the project has none. */
export function readProjectFile(directory: string): ProjectFile | undefined {
  const file = join(directory, PROJECT_FILE)
  const text = readSource(file)
  return text === undefined ? undefined : withImages(parseProject({ file, text }), directory)
}

/** A Dockerfile that cannot be read names no image; building it is an error that says why. */
function withImages(file: ProjectFile, directory: string): ProjectFile {
  const { environment } = file.data
  const { dockerfile } = environment
  if (!dockerfile) return file
  const text = readInside(realpathSync(directory), dockerfile.file, LARGEST_DOCKERFILE)?.data.toString('utf8')
  const images = text === undefined ? [] : dockerfileImages(text, dockerfile.args)
  return {
    ...file,
    data: { ...file.data, environment: { ...environment, dockerfile: { ...dockerfile, images } } },
  }
}

/**
 * SECURITY: CF-02. The file only asks; `combine` decides what it gets. Undefined if the project has no such
 * file.
 */
export function readProject(directory: string): NetworkWish | undefined {
  const file = readProjectFile(directory)
  return file && projectWish(file.data)
}

export function readUser(home: string): NetworkWish {
  return parseUser(userSource(home))
}

/** The user's default provider. */
export function readUserProvider(home: string): string | undefined {
  return parseToml(userSource(home), userSchema).data.provider
}

/** The lowest isolation of the user's sandboxes, and of everything that their server creates. */
export function readUserIsolation(home: string): Isolation | undefined {
  return parseToml(userSource(home), userSchema).data.isolation
}

/** The user's settings for agents. */
export function readUserAgents(home: string): AgentsWish {
  return agentsWish(parseToml(userSource(home), userSchema).data.agents)
}

/** How many stopped sandboxes the user may keep. */
export function readKeptLimit(home: string): number | undefined {
  return parseToml(userSource(home), userSchema).data.sandboxes?.kept
}

/** How registries of container images are reached. */
export function readRegistries(home: string): Record<string, RegistryEntry> {
  return loadRegistries(parseToml(userSource(home), userSchema).data.registries ?? {}, home)
}

function userSource(home: string): TomlSource {
  const file = join(home, USER_FILE)
  return { file, text: readSource(file, { isOurs: true }) ?? '' }
}

export function parseUser(source: TomlSource): NetworkWish {
  const { data } = parseToml(source, userSchema)
  return { ...wishOf(data, 'user'), privileges: grantedIn(data) }
}

/** Kinds that agents may use without asking are granted to every project. */
function grantedIn({ grants = {}, agents }: z.infer<typeof userSchema>): Privileges {
  const { permissions, ...others } = grantedBy(grants)
  const free = allowedWithoutAsking(withDefaultPermissions(agentsWish(agents).permissions))
  return { ...others, permissions: [...new Set([...free, ...permissions])] }
}
