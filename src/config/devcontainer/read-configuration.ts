/** What the official command's `read-configuration` prints, from a file that was read. */
import { posix } from 'node:path'
import type { JsonObject } from '../../util/untrusted-json.ts'
import type { DevcontainerFile } from './devcontainer-file.ts'
import type { ResolvedFeature } from './features/feature-resolver.ts'
import { featureEntries, fileEntry, type MetadataEntry } from './image-metadata.ts'
import { mergedConfiguration } from './merge.ts'
import { replaceLocalVariables } from './variables.ts'
import { type DevcontainerWorkspace, type LocalProject, replacedWorkspace, workspaceOf } from './workspace.ts'

export interface ConfigurationRequest {
  readonly file: DevcontainerFile
  readonly project: LocalProject
  /** What `${localEnv:...}` may see. */
  readonly env: Readonly<Record<string, string | undefined>>
}

export interface ReadConfiguration {
  /** With local variables replaced. The id and the container's variables stay as they are written. */
  readonly configuration: JsonObject
  readonly workspace: DevcontainerWorkspace
  /** The same replacement, for Features and labels. */
  replace<T>(value: T): T
}

export function readConfiguration({ file, project, env }: ConfigurationRequest): ReadConfiguration {
  const workspace = workspaceOf(file.raw, project)
  const replace = <T>(value: T): T =>
    replaceLocalVariables(value, {
      file: file.file,
      env,
      localWorkspaceFolder: project.directory,
      containerWorkspaceFolder: workspace.workspaceFolder,
    })
  const configuration = replace(file.raw)
  return { configuration, workspace: replacedWorkspace(workspace, configuration), replace }
}

export interface MergeInput {
  /** Of the image's label, as it is written. */
  readonly label: readonly MetadataEntry[]
  readonly features: readonly ResolvedFeature[]
}

/** All entries in the order of merging. Entries without anything are left out. */
export function metadataEntries(
  { configuration, replace }: ReadConfiguration,
  { label, features }: MergeInput,
): readonly MetadataEntry[] {
  return [...replace(label), ...featureEntries(features, replace), fileEntry(configuration)].filter(
    (entry) => Object.keys(entry).length > 0,
  )
}

/** `isChosen`: a person named the file, which the official command shows in the address of the file. */
export function printedConfiguration(
  read: ReadConfiguration,
  o: { readonly directory: string; readonly file: string; readonly isChosen: boolean },
  merge?: MergeInput,
): JsonObject {
  const path = posix.join(o.directory, o.file)
  const configFilePath = {
    $mid: 1,
    fsPath: path,
    path,
    scheme: o.isChosen ? 'file' : 'vscode-fileHost',
  }
  const configuration = { ...read.configuration, configFilePath }
  return {
    configuration,
    workspace: read.workspace,
    ...(merge && { mergedConfiguration: mergedConfiguration(configuration, metadataEntries(read, merge)) }),
  }
}
