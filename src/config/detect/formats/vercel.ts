/** `vercel.json`. */
import type { FileTree } from '../../file-tree.ts'
import { addCommand, type FormatDraft, type FormatFile, newFormat } from './format-file.ts'
import { commandAt, deploymentVariables, noteOthers, readSourceFile } from './source-file.ts'

const FILE = 'vercel.json'
const DEPLOYS = 'it configures deployments of Vercel'
const OTHERS = [
  'alias',
  'builds',
  'bunVersion',
  'cleanUrls',
  'crons',
  'fluid',
  'framework',
  'functions',
  'git',
  'github',
  'headers',
  'ignoreCommand',
  'images',
  'name',
  'outputDirectory',
  'public',
  'redirects',
  'regions',
  'functionFailoverRegions',
  'rewrites',
  'routes',
  'scope',
  'trailingSlash',
  'version',
]

/** `@name` stands for a secret that Vercel keeps. */
function leaveOutSecrets(format: FormatDraft): void {
  for (const { name, value, evidence } of format.variables)
    if (value.startsWith('@'))
      format.notes.push(
        `${FILE}:${evidence.line ?? 1}: ${name} is not used: it refers to a secret of Vercel; \`agentpod secret set\` stores one here`,
      )
  format.variables = format.variables.filter(({ value }) => !value.startsWith('@'))
}

export function readVercel(tree: FileTree): readonly FormatFile[] {
  if (!tree.has(FILE)) return []
  const format = newFormat(FILE, 'vercel')
  const source = readSourceFile(tree, FILE, format)
  if (!source) return [format]
  const install = commandAt(format, source, ['installCommand'])
  if (install) format.setup.push(install)
  addCommand(format, 'build', commandAt(format, source, ['buildCommand']))
  addCommand(format, 'dev', commandAt(format, source, ['devCommand']))
  for (const path of [['env'], ['build', 'env']]) deploymentVariables(format, source, path)
  leaveOutSecrets(format)
  noteOthers(format, source, [], {
    used: ['installCommand', 'buildCommand', 'devCommand', 'env', 'build'],
    why: Object.fromEntries(OTHERS.map((key) => [key, DEPLOYS])),
  })
  return [format]
}
