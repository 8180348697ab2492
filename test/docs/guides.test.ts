/** The commands of the guides, each guide on a state directory that did not exist. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { commandsIn, runAll } from '../support/documented.ts'
import { ROOT, World } from '../support/world.ts'

const GUIDES = join(ROOT, 'docs', 'guides')

for (const guide of readdirSync(GUIDES).filter((name) => name.endsWith('.md'))) {
  test(`${guide} works as written`, { timeout: 120_000 }, async () => {
    await using world = new World()
    const lines = commandsIn(readFileSync(join(GUIDES, guide), 'utf8'))
    assert.ok(lines.length >= 5)
    runAll(lines, world.home)
  })
}
