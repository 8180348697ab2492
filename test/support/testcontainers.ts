/** The library Testcontainers for Python, with what it needs, as a directory that a sandbox can have. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './world.ts'

/** Pure Python, or with a part in C that it can do without: Debian's Python may be another version. */
const PACKAGES = ['testcontainers==4.13.3']
const DIRECTORY = join(ROOT, '.cache', 'compat', 'testcontainers')
const FETCH_MS = 300_000

export function testcontainers(): { readonly directory: string } | { readonly missing: string } {
  if (existsSync(DIRECTORY)) return { directory: DIRECTORY }
  const draft = `${DIRECTORY}.${process.pid}`
  try {
    mkdirSync(draft, { recursive: true })
    execFileSync('python3', ['-m', 'pip', 'install', '--quiet', '--target', draft, ...PACKAGES], {
      timeout: FETCH_MS,
      stdio: 'pipe',
    })
    renameSync(draft, DIRECTORY)
    return { directory: DIRECTORY }
  } catch (error) {
    return { missing: `Testcontainers cannot be downloaded here: ${String(error).split('\n').at(0)}` }
  } finally {
    rmSync(draft, { recursive: true, force: true })
  }
}
