/** The table `[registries]` of the user's file: how registries of container images are reached. */
import { readFileSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import * as z from 'zod'
import { invalid } from '../../core/error.ts'
import { isImageRef } from '../../core/image-ref.ts'
import { about } from '../project/values.ts'

const LARGEST_CA_BYTES = 1024 * 1024

const host = z
  .string()
  .max(255)
  .refine((text) => isImageRef(`${text}/name`) && /[.:]|^localhost$/.test(text), {
    message: 'is not the host of a registry; write it like registry.example.com or localhost:5000',
  })

export const registryTable = z.strictObject({
  insecure: z.boolean().optional().meta(about('Whether plain HTTP is allowed for this registry.', '`false`')),
  ca: z
    .string()
    .max(4096)
    .optional()
    .meta(
      about(
        'A file with certificate authorities (PEM) to trust for this registry, besides the machine’s.',
        'none',
      ),
    ),
  mirrors: z
    .array(host)
    .max(8)
    .optional()
    .meta({ kind: 'list of hosts' })
    .meta(about('Hosts that are asked before this registry. A mirror decides what a tag means.', 'none')),
})

export const registriesTable = z
  .record(host, registryTable)
  .refine((table) => Object.keys(table).length <= 64, 'at most 64 registries')

export interface RegistryEntry {
  readonly insecure?: boolean | undefined
  /** The content of the file. */
  readonly ca?: string | undefined
  readonly mirrors?: readonly string[] | undefined
}

/** The table with the content of its files. Relative paths start at the state directory. */
export function loadRegistries(
  table: z.infer<typeof registriesTable>,
  directory: string,
): Record<string, RegistryEntry> {
  return Object.fromEntries(
    Object.entries(table).map(([name, { ca, ...rest }]) => [
      name,
      ca === undefined
        ? rest
        : { ...rest, ca: readAuthority(name, isAbsolute(ca) ? ca : join(directory, ca)) },
    ]),
  )
}

function readAuthority(name: string, file: string): string {
  try {
    const text = readFileSync(file, 'utf8')
    if (text.length <= LARGEST_CA_BYTES && text.includes('-----BEGIN CERTIFICATE-----')) return text
  } catch (error) {
    throw unreadable(name, file, error instanceof Error ? error.message : String(error))
  }
  throw unreadable(name, file, 'it is not a PEM file with certificates')
}

function unreadable(name: string, file: string, why: string): Error {
  return invalid(
    'registry.ca',
    `the certificate authority of the registry ${name} cannot be read from ${file}: ${why}`,
    `correct [registries."${name}"] ca in config.toml`,
  )
}
