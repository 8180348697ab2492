/** Files of other platforms whose packages come from Debian, and processes that run beside the project. */
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { after, describe, test } from 'node:test'
import { World } from '../support/world.ts'

const world = new World()
after(() => world[Symbol.asyncDispose]())

function project(files: Readonly<Record<string, string>>): string {
  const directory = join(world.directory(), 'project')
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(join(directory, dirname(path)), { recursive: true })
    writeFileSync(join(directory, path), text)
  }
  return directory
}

async function passes(cwd: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await world.cli(args, { cwd, timeoutMs: 600_000 })
  assert.equal(code, 0, `${stdout}\n${stderr}`)
  return stdout
}

describe('files of other platforms', () => {
  test('FMT-6 packages of nixpacks.toml are installed from Debian', async () => {
    const directory = project({
      'nixpacks.toml':
        '[phases.setup]\naptPkgs = ["bc"]\nnixPkgs = ["jq"]\n[phases.build]\ncmds = ["echo \'6 * 7\' | bc | jq ."]\n',
    })
    assert.equal((await passes(directory, 'run', '--', 'sh', '-c', 'echo "6 * 7" | bc | jq .')).trim(), '42')
  })

  test('FMT-2 a terminal of Cursor listens before the command starts', async () => {
    const server = `require('node:http').createServer((_, r) => r.end('hello')).listen(4555, '127.0.0.1')`
    const directory = project({
      'server.js': server,
      '.nvmrc': '20\n',
      'package.json': '{"name":"x","private":true}',
      '.cursor/environment.json':
        '{ "terminals": [{ "name": "Api", "command": "PORT=4555 node server.js" }] }',
    })
    const ask = `fetch('http://127.0.0.1:4555').then((r) => r.text()).then(console.log)`
    assert.equal((await passes(directory, 'run', '--', 'node', '-e', ask)).trim(), 'hello')
  })
})
