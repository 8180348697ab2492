/** agentpod.lock: the exact parts of an environment, so that the next one is built from the same. */
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { stringify } from 'smol-toml'
import * as z from 'zod'
import { baseKind } from '../../bases/bases.ts'
import { DEBIAN_NAME, DEBIAN_VERSION } from '../../bases/debian-packages.ts'
import { AgentPodError } from '../../core/error.ts'
import { SUITES } from '../../core/recipe.ts'
import { PROJECT_BASES, type ProjectBase } from '../project/environment-table.ts'
import { parseToml, readSource } from '../toml/toml-file.ts'
import type { ToolchainSource } from './languages/find-toolchain.ts'
import { baseOf } from './named-bases.ts'
import type { Plan } from './plan.ts'

export const LOCK_FILE = 'agentpod.lock'

/**
 * SECURITY: CF-02. The file comes from the project, and its values go into apt's preferences and command
 * lines: names and versions must match the package manager's grammar, so that they cannot be options or
 * anything else.
 */
const versions = (name: RegExp, version: RegExp): z.ZodRecord<z.ZodString, z.ZodString> =>
  z.record(
    z.string().max(200).regex(name, 'is not the name of a package'),
    z.string().max(200).regex(version, 'is not a version'),
  )
const PLAIN_VERSION = /^[A-Za-z0-9][A-Za-z0-9.+!_-]*$/
const packages = {
  apt: versions(DEBIAN_NAME, DEBIAN_VERSION),
  npm: versions(/^(?:@[A-Za-z0-9][A-Za-z0-9._~-]*\/)?[A-Za-z0-9][A-Za-z0-9._~-]*$/, PLAIN_VERSION),
  pip: versions(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, PLAIN_VERSION),
}
const LANGUAGE_VERSION = /^\d{1,9}(?:\.\d{1,9}){0,2}$/

const schema = z.strictObject({
  version: z.literal(1),
  /** A hash of the request: another hash means that the lock is out of date. */
  wishes: z.string().regex(/^[0-9a-f]{16}$/),
  base: z.strictObject({
    name: z.enum(PROJECT_BASES).refine(isLockable, 'is a base that cannot be locked'),
    suite: z.enum(SUITES),
    digest: z.string().regex(/^[0-9a-f]{64}$/),
  }),
  languages: z
    .record(
      z.string().max(32),
      z.strictObject({
        version: z.string().regex(LANGUAGE_VERSION, 'is not a version'),
        source: z.string().max(200),
      }),
    )
    .optional(),
  packages: z
    .strictObject({
      apt: packages.apt.optional(),
      npm: packages.npm.optional(),
      pip: packages.pip.optional(),
    })
    .optional(),
})

function isLockable(name: ProjectBase): boolean {
  return baseKind(baseOf(name)).lockRefusal === undefined
}

export interface Lock {
  readonly wishes: string
  readonly base: { readonly name: string; readonly suite: string; readonly digest: string }
  /** Versions by language. */
  readonly languages: Readonly<Record<string, string>>
  readonly apt: Readonly<Record<string, string>>
  readonly npm: Readonly<Record<string, string>>
  readonly pip: Readonly<Record<string, string>>
}

/** Undefined where the project has none. */
export function readLock(directory: string): Lock | undefined {
  const file = join(directory, LOCK_FILE)
  const text = readSource(file)
  if (text === undefined) return undefined
  const { data } = parseToml({ file, text }, schema)
  return {
    wishes: data.wishes,
    base: data.base,
    languages: Object.fromEntries(
      Object.entries(data.languages ?? {}).map(([name, { version }]) => [name, version]),
    ),
    apt: data.packages?.apt ?? {},
    npm: data.packages?.npm ?? {},
    pip: data.packages?.pip ?? {},
  }
}

function withoutEmptyNix({ nix, ...extra }: Plan['extra']): Partial<Plan['extra']> {
  return nix.length === 0 ? extra : { ...extra, nix }
}

/**
 * A hash of everything that was requested, but not of the versions found: the lock is valid while it stays
 * the same.
 */
export function wishesHash(plan: Plan): string {
  const asked = {
    base: plan.base.value,
    suite: plan.resolvedBase.suite ?? '',
    ...(plan.resolvedBase.image !== undefined && { image: plan.resolvedBase.image }),
    languages: plan.languages.map(({ language, asked: wish }) => [language, wish]),
    tools: plan.tools.map(({ name, version }) => [name, version ?? '']),
    packages: plan.packages.map(({ name }) => name),
    // Without packages of nix, the hash is that of versions before they existed.
    extra: withoutEmptyNix(plan.extra),
    services: plan.services.map(({ name, version }) => [name, version ?? '']),
  }
  return createHash('sha256').update(JSON.stringify(asked)).digest('hex').slice(0, 16)
}

/**
 * Throws `failed_precondition` if the base cannot be locked, such as this machine, which changes with every
 * update.
 */
export function lockText(
  plan: Plan,
  found: {
    readonly digest: string
    readonly apt: Readonly<Record<string, string>>
    readonly npm: Readonly<Record<string, string>>
    readonly pip: Readonly<Record<string, string>>
  },
): string {
  if (plan.resolvedBase.dockerfile) throw noLockOfDockerfile(plan.resolvedBase.dockerfile.file)
  const { lockRefusal } = baseKind(plan.resolvedBase.base)
  if (lockRefusal) throw new AgentPodError({ code: 'failed_precondition', ...lockRefusal })
  const document = {
    version: 1,
    wishes: wishesHash(plan),
    base: { name: plan.base.value, suite: plan.resolvedBase.suite, digest: found.digest },
    languages: Object.fromEntries(
      plan.languages.map(({ language, source }) => [
        language,
        { version: source.version, source: sourceText(source) },
      ]),
    ),
    packages: { apt: sorted(found.apt), npm: sorted(found.npm), pip: sorted(found.pip) },
  }
  return `# Made by \`agentpod config lock\`. Commit this file. To change it, edit agentpod.toml.\n${stringify(document)}\n`
}

function noLockOfDockerfile(file: string): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'lock.image',
    message: `the image of ${file} needs no lock: pin the images and packages in the Dockerfile instead`,
    hint: 'write digests in it, as in FROM name@sha256:...',
  })
}

function sorted(map: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1)))
}

export function sourceText(source: ToolchainSource): string {
  switch (source.kind) {
    case 'there':
    case 'packaged':
    case 'own':
      return source.where
    case 'npm':
      return source.sha512
        ? `npm ${source.package} sha512:${source.sha512.slice(0, 32)}`
        : `npm ${source.package}`
    case 'go':
      return 'the Go module proxy'
  }
}
