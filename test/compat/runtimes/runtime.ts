/** Node, Bun and Deno, where they are available. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../../support/world.ts'

const VERSIONS = { bun: '1', deno: '2' }

/**
 * The runtime's program from its npm package, which is not one of our dependencies; or why it is not
 * available.
 */
function install(name: keyof typeof VERSIONS): { program: string } | { missing: string } {
  const directory = join(ROOT, '.cache', 'compat', name)
  const program = join(directory, 'node_modules', '.bin', name)
  try {
    if (!existsSync(program)) {
      mkdirSync(directory, { recursive: true })
      execFileSync('npm', ['install', '--prefix', directory, '--no-save', `${name}@${VERSIONS[name]}`], {
        stdio: 'pipe',
      })
    }
    execFileSync(program, ['--version'], { stdio: 'pipe' })
    return { program }
  } catch (error) {
    return {
      missing: `${name} is not available from npm here: ${String((error as Error).message).split('\n')[0]}`,
    }
  }
}

/** How each runs a program of TypeScript. */
export const RUNTIMES: Record<string, (program: string) => { command: string[] } | { missing: string }> = {
  node: (program) => ({ command: [process.execPath, program] }),
  bun: (program) => {
    const found = install('bun')
    return 'program' in found ? { command: [found.program, 'run', program] } : found
  },
  deno: (program) => {
    const found = install('deno')
    return 'program' in found
      ? { command: [found.program, 'run', '--allow-all', '--quiet', '--no-lock', program] }
      : found
  },
}
