/** Reads a devcontainer.json: first against the schema, then checks across properties. */
import * as z from 'zod'
import { isObject, type JsonObject } from '../../util/untrusted-json.ts'
import type { Evidence } from '../evidence.ts'
import { type JsoncFile, type JsoncSource, parseJsonc } from '../jsonc/jsonc-file.ts'
import type { Path, Position } from '../toml/positions.ts'
import { printable, problemsError, problemsIn, type Remark } from '../toml/problem.ts'
import { didYouMean } from '../toml/schema-problems.ts'
import { checkAgentpodTables } from './agentpod-tables.ts'
import { localVariables } from './local-variables.ts'
import { withoutOldProperties } from './old-properties.ts'
import { type DevcontainerProperties, devcontainerSchema } from './properties.ts'

/** What the container is made from. */
export type DevcontainerSource =
  | { readonly kind: 'from-image'; readonly image: string }
  | {
      readonly kind: 'from-dockerfile'
      /** Relative to the file's own directory, as all paths here. */
      readonly dockerfile: string
      readonly context: string
      readonly args: Readonly<Record<string, string>>
      readonly target?: string | undefined
      readonly cacheFrom: readonly string[]
      readonly options: readonly string[]
    }
  | {
      readonly kind: 'from-compose'
      readonly composeFiles: readonly string[]
      readonly service: string
      /** Undefined: all of them. */
      readonly runServices?: readonly string[] | undefined
    }

/** A devcontainer.json as it was written, before variables are replaced. */
export interface DevcontainerFile {
  /** Relative to the project. */
  readonly file: string
  /** With the old properties moved to `customizations.vscode`, keys in the order of the file. */
  readonly raw: JsonObject
  readonly properties: DevcontainerProperties
  /** Remarks for the user about accepted, but old or doubtful, properties. */
  readonly notes: readonly Evidence[]
  at(path: Path): Position | undefined
}

export interface ParseOptions {
  /** An unknown property at the top becomes a note; the official command ignores it. */
  readonly isLenient?: boolean | undefined
}

export function parseDevcontainer(source: JsoncSource, o: ParseOptions = {}): DevcontainerFile {
  const parsed = parsedFile(source, o)
  if (localVariables(parsed.value).length > MOST_VARIABLES)
    throw problemsError(
      parsed.problems([
        { path: [], message: `reads variables of this machine over ${MOST_VARIABLES} times` },
      ]),
    )
  const { file, at } = parsed
  const said = (path: Path, text: string): Evidence => ({ file, line: at(path)?.line, said: text })
  return {
    file,
    raw: withoutOldProperties(knownOf(parsed.value)),
    properties: parsed.data,
    notes: [
      ...unknownOf(parsed.value)
        .slice(0, MOST_NOTES)
        .map((key) => said([key], unknownNote(key))),
      ...oldNotes(parsed.data).map(([key, text]) => said([key], text)),
      ...defaultsWithColons(parsed.value, [])
        .slice(0, MOST_NOTES)
        .map((path) => said(path, 'a default ends at its first colon, as with the official command')),
    ],
    at,
  }
}

const isKnown = (key: string): boolean => Object.hasOwn(devcontainerSchema.shape, key)

function unknownOf(value: unknown): string[] {
  return isObject(value) ? Object.keys(value).filter((key) => !isKnown(key)) : []
}

function knownOf(value: unknown): JsonObject {
  return isObject(value) ? Object.fromEntries(Object.entries(value).filter(([key]) => isKnown(key))) : {}
}

function unknownNote(key: string): string {
  const hint = key === 'extends' ? NO_EXTENDS : didYouMean(key, Object.keys(devcontainerSchema.shape))
  return `${printable(key)} is not a property of devcontainer.json, and is not used${hint === undefined ? '' : `; ${hint}`}`
}

const NO_EXTENDS = 'the specification has no extends; copy the properties into this file'
/** The same properties; those that it does not know are left out. */
const lenientSchema = z.object(devcontainerSchema.shape)

function parsedFile(source: JsoncSource, { isLenient }: ParseOptions): JsoncFile<DevcontainerProperties> {
  try {
    return parseJsonc(source, isLenient ? lenientSchema : devcontainerSchema, checkProperties)
  } catch (error) {
    const problems = problemsIn(error)
    if (!problems?.some(({ path }) => path === 'extends')) throw error
    throw problemsError(
      problems.map((one) =>
        one.path === 'extends' && one.hint === undefined ? { ...one, hint: NO_EXTENDS } : one,
      ),
    )
  }
}

/** The source that the properties name. They were checked: there is exactly one. */
export function devcontainerSource(properties: DevcontainerProperties): DevcontainerSource {
  const { image, build = {}, dockerFile, context, dockerComposeFile, service = '', runServices } = properties
  if (dockerComposeFile !== undefined)
    return {
      kind: 'from-compose',
      composeFiles: [dockerComposeFile].flat(),
      service,
      ...(runServices !== undefined && { runServices }),
    }
  const dockerfile = dockerFile ?? build.dockerfile
  if (dockerfile === undefined) return { kind: 'from-image', image: image ?? '' }
  const { args = {}, target, cacheFrom = [], options = [] } = build
  return {
    kind: 'from-dockerfile',
    dockerfile,
    context: context ?? build.context ?? '.',
    args,
    ...(target !== undefined && { target }),
    cacheFrom: [cacheFrom].flat(),
    options,
  }
}

type Check = (properties: DevcontainerProperties) => readonly Remark[]

function checkProperties(properties: DevcontainerProperties): Remark[] {
  const checks: readonly Check[] = [
    oneSource,
    buildPlaces,
    composeParts,
    workspaceParts,
    shutdownOfKind,
    ({ customizations }) => checkAgentpodTables(customizations?.['agentpod']),
  ]
  return checks.flatMap((check) => check(properties))
}

const SOURCES = ['image', 'dockerComposeFile', 'dockerFile'] as const

/** SECURITY: CF-02. Tools that disagree about the source would build different containers from one file. */
function oneSource(properties: DevcontainerProperties): Remark[] {
  const named: string[] = SOURCES.filter((key) => properties[key] !== undefined)
  if (properties.build?.dockerfile !== undefined) named.push('build')
  if (named.length === 0)
    return [
      {
        path: properties.build === undefined ? [] : ['build'],
        message:
          properties.build === undefined
            ? 'names no image, build.dockerfile or dockerComposeFile'
            : 'has no dockerfile',
        hint: properties.build === undefined ? 'add "image": "debian:12"' : 'add "dockerfile": "Dockerfile"',
        reason: 'devcontainer.no_source',
      },
    ]
  const [first, ...others] = named
  return others.map((key) => ({
    path: [key],
    isKey: true,
    message: `the container is already made from ${first}`,
    hint: `keep one of ${named.join(' and ')}`,
    reason: 'devcontainer.contradiction',
  }))
}

function buildPlaces({
  build,
  dockerFile,
  context,
  dockerComposeFile,
  image,
}: DevcontainerProperties): Remark[] {
  const remarks: Remark[] = []
  const isNotBuilt = dockerFile === undefined && build?.dockerfile === undefined
  if (context !== undefined && dockerFile === undefined)
    remarks.push({
      path: ['context'],
      isKey: true,
      message: 'belongs to dockerFile, and there is none',
      hint: 'use build.context',
    })
  if (dockerFile !== undefined && build?.context !== undefined)
    remarks.push({
      path: ['build', 'context'],
      isKey: true,
      message: 'has no effect beside dockerFile',
      hint: 'move dockerFile into build as dockerfile',
    })
  if (build !== undefined && isNotBuilt && (dockerComposeFile ?? image) !== undefined)
    remarks.push({
      path: ['build'],
      isKey: true,
      message: `has no effect beside ${image === undefined ? 'dockerComposeFile' : 'image'}`,
      hint: 'remove it, or add build.dockerfile',
    })
  return remarks
}

function composeParts(properties: DevcontainerProperties): Remark[] {
  const { dockerComposeFile, service, runServices, workspaceFolder, runArgs, appPort, workspaceMount } =
    properties
  if (dockerComposeFile === undefined)
    return Object.entries({ service, runServices }).flatMap(([key, value]) =>
      value === undefined
        ? []
        : [{ path: [key], isKey: true, message: 'needs dockerComposeFile', hint: 'remove it' }],
    )
  const remarks: Remark[] = []
  if (service === undefined)
    remarks.push({
      path: ['dockerComposeFile'],
      message: 'needs the key service: the service that people work in',
    })
  if (workspaceFolder === undefined)
    remarks.push({
      path: ['dockerComposeFile'],
      message: 'needs the key workspaceFolder: the path of the project in the service',
    })
  for (const [key, value] of Object.entries({ runArgs, appPort, workspaceMount }))
    if (value !== undefined)
      remarks.push({
        path: [key],
        isKey: true,
        message: 'has no effect with dockerComposeFile',
        hint: 'say it in the compose file',
      })
  return remarks
}

function workspaceParts({
  dockerComposeFile,
  workspaceFolder,
  workspaceMount,
}: DevcontainerProperties): Remark[] {
  if (dockerComposeFile !== undefined || (workspaceFolder === undefined) === (workspaceMount === undefined))
    return []
  if (workspaceMount === undefined) return []
  return [
    {
      path: ['workspaceMount'],
      isKey: true,
      message: 'needs the key workspaceFolder',
      hint: 'add "workspaceFolder" with the target of the mount',
    },
  ]
}

function shutdownOfKind({ dockerComposeFile, shutdownAction }: DevcontainerProperties): Remark[] {
  const wrong = dockerComposeFile === undefined ? 'stopCompose' : 'stopContainer'
  if (shutdownAction !== wrong) return []
  const right = dockerComposeFile === undefined ? 'stopContainer' : 'stopCompose'
  return [
    {
      path: ['shutdownAction'],
      message: `${JSON.stringify(wrong)} is for another kind of container`,
      hint: `use ${JSON.stringify(right)} or "none"`,
    },
  ]
}

function oldNotes(properties: DevcontainerProperties): (readonly [string, string])[] {
  const old = {
    dockerFile: 'dockerFile is the old place of build.dockerfile',
    context: 'context is the old place of build.context',
    extensions: 'extensions is the old place of customizations.vscode.extensions',
    settings: 'settings is the old place of customizations.vscode.settings',
    devPort: 'devPort is the old place of customizations.vscode.devPort',
  } as const
  return Object.entries(old).filter(([key]) => properties[key as keyof typeof old] !== undefined)
}

const CUT_DEFAULT = /\$\{(?:env|localEnv|containerEnv):[^:}]*:[^:}]*:/
const MOST_NOTES = 20
const MOST_VARIABLES = 256

function defaultsWithColons(value: unknown, path: Path): Path[] {
  if (typeof value === 'string') return CUT_DEFAULT.test(value) ? [path] : []
  if (Array.isArray(value)) return value.flatMap((one, index) => defaultsWithColons(one, [...path, index]))
  if (!isObject(value)) return []
  return Object.entries(value).flatMap(([key, one]) => defaultsWithColons(one, [...path, key]))
}
