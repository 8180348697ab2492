/** Commands that a document tells its reader to type. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { ROOT } from './world.ts'

/** Every line of every `sh` block, in order. */
export function commandsIn(text: string): string[] {
  const blocks = text.matchAll(/```sh\n([\s\S]*?)```/g)
  return [...blocks].flatMap(([, block = '']) => block.split('\n')).filter((line) => line !== '')
}

/**
 * Runs the commands as a reader would, in the clone or where the document says, on this state directory. Each
 * must succeed.
 */
export function runAll(
  lines: readonly string[],
  home: string,
  o: { readonly cwd?: string; readonly env?: Readonly<Record<string, string>> } = {},
): void {
  for (const line of lines) {
    const { status, stderr } = spawnSync('sh', ['-c', line], {
      cwd: o.cwd ?? ROOT,
      env: { ...process.env, ...o.env, AGENTPOD_HOME: home },
      encoding: 'utf8',
      input: '',
    })
    assert.equal(status, 0, `${line}\n${stderr}`)
  }
}
