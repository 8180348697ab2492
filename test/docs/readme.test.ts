/** The commands of the README, run as a reader would, in order, on a state directory that did not exist. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ROOT, World } from '../support/world.ts'

const world = new World()
after(() => world[Symbol.asyncDispose]())

function commands(heading: string): string[] {
  const text = readFileSync(join(ROOT, 'README.md'), 'utf8')
  const [, section = ''] = text.split(`## ${heading}\n`)
  const blocks = (section.split('\n## ')[0] ?? '').matchAll(/```sh\n([\s\S]*?)```/g)
  return [...blocks].flatMap(([, block = '']) => block.split('\n')).filter((line) => line !== '')
}

test('the five minutes work as written', () => {
  const lines = commands('Five minutes')
  assert.ok(lines.length >= 8)
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

test('the test commands are those of package.json', () => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  for (const line of commands('Tests')) {
    const name = /^npm (?:run )?(\S+)/.exec(line)?.[1] ?? ''
    assert.ok(scripts[name], `npm ${name}`)
  }
})
