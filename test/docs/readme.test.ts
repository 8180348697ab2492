/** The commands of the README, run as a reader would, in order, on a state directory that did not exist. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { commandsIn, runAll } from '../support/documented.ts'
import { ROOT, World } from '../support/world.ts'

const world = new World()
after(() => world[Symbol.asyncDispose]())

function commands(heading: string): string[] {
  const text = readFileSync(join(ROOT, 'README.md'), 'utf8')
  const [, section = ''] = text.split(`## ${heading}\n`)
  return commandsIn(section.split('\n## ')[0] ?? '')
}

test('the README’s first five minutes work as written', () => {
  const lines = commands('Five minutes')
  assert.ok(lines.length >= 8)
  runAll(lines, world.home)
})

test('the README’s test commands are those of package.json', () => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  for (const line of commands('Tests')) {
    const name = /^npm (?:run )?(\S+)/.exec(line)?.[1] ?? ''
    assert.ok(scripts[name], `npm ${name}`)
  }
})
