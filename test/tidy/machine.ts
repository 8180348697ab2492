// No file of the repository shows where it was written: neither a path of the machine nor its package
// registry.

import { execFile } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { lineAt, type SourceFile, type Violation } from './source.ts'

const run = promisify(execFile)

// Where clones commonly lie, which documents and tests name for other reasons.
const ORDINARY_DIRECTORIES =
  /^\/(?:(?:tmp|home|root|opt|srv|mnt|media|usr\/src|usr\/local\/src|var\/tmp|workspaces?|app|src|repo|code|builds?)?|home\/[^/]+)$/
const LOOPBACK = /^(?:localhost|127\.[\d.]+|\[::1\])$/

export function checkMachinePaths(files: readonly SourceFile[], root: string): Violation[] {
  const directories = [root, dirname(root)].filter((directory) => !ORDINARY_DIRECTORIES.test(directory))
  return directories.flatMap((directory) => {
    const pattern = new RegExp(`(?<![\\w.~/-])${escapePattern(directory)}(?![\\w-])`, 'g')
    return violations(files, pattern, 'names a directory of the machine it was written on')
  })
}

// The message leaves the host out: it is itself what must not be published.
export function checkRegistryHosts(files: readonly SourceFile[], hosts: readonly string[]): Violation[] {
  return hosts.flatMap((host) => {
    const pattern = new RegExp(`(?<![\\w.-])${escapePattern(host)}(?![\\w-])`, 'g')
    return violations(files, pattern, "names a registry of this machine's configuration")
  })
}

function escapePattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')
}

function violations(files: readonly SourceFile[], pattern: RegExp, rule: string): Violation[] {
  return files.flatMap(({ path, text }) =>
    [...text.matchAll(pattern)].map((match) => ({ path, line: lineAt(text, match.index), rule })),
  )
}

/** Asks the package managers of this machine where they fetch from. */
export async function findRegistryHosts(): Promise<string[]> {
  const answers = await Promise.all([
    ask('npm', ['config', 'get', 'registry']),
    ask('go', ['env', 'GOPROXY']),
    ask('pip', ['config', 'list']),
    aptSources(),
  ])
  return registryHosts(answers.join('\n'))
}

export function registryHosts(answers: string): string[] {
  const urls = answers.match(/\bhttps?:\/\/[^\s'",|]+/g) ?? []
  const hosts = urls.flatMap((url) => (URL.canParse(url) ? [new URL(url)] : []))
  return [...new Set(hosts.map(({ host, hostname }) => (LOOPBACK.test(hostname) ? host : hostname)))].filter(
    (host) => !LOOPBACK.test(host),
  )
}

// A program that is not installed fetches nothing.
async function ask(program: string, args: readonly string[]): Promise<string> {
  return run(program, [...args], { timeout: 10_000 }).then(
    ({ stdout }) => stdout,
    () => '',
  )
}

function aptSources(): string {
  const files = globSync(['/etc/apt/sources.list', '/etc/apt/sources.list.d/*', '/etc/apt/apt.conf.d/*'])
  const lines = files.flatMap((file) => readFileSync(file, 'utf8').split('\n'))
  // A comment may point to anything.
  return lines.filter((line) => !/^\s*(?:#|\/\/)/.test(line)).join('\n')
}
