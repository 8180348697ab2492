/** The commands of the guides, run as a reader would, in order, each guide on a state directory that did not exist. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { ROOT, World } from '../support/world.ts'

const GUIDES = join(ROOT, 'docs', 'guides')

for (const guide of readdirSync(GUIDES).filter((name) => name.endsWith('.md'))) {
  test(`${guide} works as written`, { timeout: 120_000 }, async () => {
    await using world = new World()
    const blocks = readFileSync(join(GUIDES, guide), 'utf8').matchAll(/```sh\n([\s\S]*?)```/g)
    const lines = [...blocks].flatMap(([, block = '']) => block.split('\n')).filter((line) => line !== '')
    assert.ok(lines.length >= 5)
    for (const line of lines) {
      const { status, stderr } = spawnSync('sh', ['-c', line], {
        cwd: ROOT,
        env: { ...process.env, AGENTPOD_HOME: world.home },
        encoding: 'utf8',
        input: '',
      })
      assert.equal(status, 0, `${line}\n${stderr}`)
    }
  })
}
